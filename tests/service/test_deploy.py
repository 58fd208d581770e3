"""What is deployed: the steps of the image run as a script in a clean environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from _service_kill import free_port

ROOT = Path(__file__).parents[2]


def test_the_image_runs_as_nobody_and_reads_no_source():
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    assert "USER 65534" in text
    assert "deploy/build.sh" in text
    unit = (ROOT / "deploy" / "prudent.service").read_text()
    assert "LoadCredential" not in unit  # a copy from the start: keys could not be rotated
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    assert "read_only: true" in compose


@pytest.mark.slow
def test_the_build_steps_run_and_the_first_decision_compiles_nothing(tmp_path):
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    home |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    target = tmp_path / "prudent"
    subprocess.run(["sh", ROOT / "deploy" / "build.sh", ROOT, target], check=True, env=home, cwd=tmp_path)
    kernels = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(target / "kernels")}
    port = free_port()
    call = [target / "bin" / "prudent", "serve", "--store", f"sqlite:{tmp_path}/store", "--port", str(port)]
    with subprocess.Popen(call, env=home | kernels, stderr=subprocess.PIPE, text=True) as server:
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", timeout=60, transport=httpx.HTTPTransport(retries=8)
            ) as http:
                assert http.put("/v1/slots/a", json={"arms": 3, "dim": 2}).status_code == 201
                found = http.post("/v1/slots/a/decide", json={"context": [1.0, 0.0]}).json()
                reward = {"id": found["id"], "reward": 1.0}
                assert http.post("/v1/slots/a/reward", json=reward).json() == {"status": "ok"}
        finally:
            server.terminate()
        assert "compiling" not in server.stderr.read()


@pytest.mark.slow
def test_first_requests_after_ready_compile_nothing(tmp_path):
    """Without any compiled kernel: what requests need was compiled when the slots were opened."""
    script = ROOT / "tests" / "support" / "_first_requests.py"
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PRUDENT_SHIPPED_KERNELS": "0"}
    run = subprocess.run([sys.executable, script, tmp_path], env=env, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout.splitlines()[-1]) == {"numbers": [], "clicks": [], "logistic": [], "items": []}
