"""What is published installs and works: wheel and sdist, the lowest and the newest versions, every Python there is.

Slow: each case makes an environment and compiles kernels. A Python that is not on the machine is skipped by name.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

pytestmark = pytest.mark.slow

SMOKE = """
import numpy as np
import prudent as pr

model, posterior = pr.from_log(
    [("ill", drug, end, 0, n) for drug, end, n in
     [("old", "well", 60), ("old", "died", 40), ("new", "well", 3), ("new", "died", 1)]],
    discount=0.99,
    terminal={"well": 1, "died": 0},
)
solved = [pr.BayesianRiskMDP(model, posterior, alpha).solve() for alpha in (0, 0.9)]
names = [each.policy_names[model.state_index("ill")] for each in solved]
assert names == ["new", "old"], names
assert abs(pr.exact.cvar_dirichlet([0.0, 1.0], [1.0, 1.0], 0.5) - 0.25) < 1e-9  # uniform: the mean of the lower half
bandit = pr.LinearBandit(["red", "blue"], dim=2, rng=1)
for _ in range(20):
    decision = bandit.select([1.0, 0.5])
    assert 0.0 < decision.propensity <= 1.0
    bandit.update([1.0, 0.5], decision.arm, 1.0 if decision.arm == "red" else 0.0)
bandit.save("bandit.state")
assert sum(pr.LinearBandit.load("bandit.state").pulls.values()) == 20
runs = pr.simulate(pr.envs.frozen_lake(0.2), [pr.agents.ts_rl(), pr.brps_rl(0.9)], episodes=5, replications=2, rng=1)
assert np.isfinite(runs.regret.values).all()
solution = pr.solve(pr.MDP.from_gymnasium("FrozenLake-v1", discount=0.95))
assert solution.converged
solution.plot()
print("works")
"""

TYPED = """
import numpy as np
import prudent as pr
from prudent.types import PolicyLike, RngLike, StartLike


def earned(policy: PolicyLike, start: StartLike, rng: RngLike = 1) -> float:
    returns = pr.posterior_returns(model, posterior, {"mine": policy}, start=start, draws=100, rng=rng)
    return float(returns["mean"])


model, posterior = pr.from_log([("a", "go", "b", 1.0), ("b", "go", "a", 0.0)], discount=0.9)
solution: pr.planning.Solution = pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve()
worth: float = float(solution.value[0])
for policy in (solution, {"a": "go", "b": "go"}, np.array([0, 0]), ["go", "go"]):
    earned(policy, "a")
bandit = pr.LinearBandit(["red", "blue"], dim=2, rng=1)
chance: float | None = bandit.select([1.0, 0.5]).propensity
measures = [pr.CVaR(0.9), pr.VaR(0.5), pr.risk.WorstCase()]
values: list[float] = [float(measure([1.0, 2.0, 3.0])) for measure in measures]
try:
    pr.CVaR(2.0)
except pr.errors.ParameterError as error:
    print(error.code, error.fields["value"])
"""


def do(*command, cwd, **options):
    """Run a command and return what it prints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    do(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return {file.suffix: file for file in folder.iterdir()}


@pytest.fixture(scope="module")
def uv():
    return pytest.importorskip("uv").find_uv_bin()


def environment(uv, folder, version):
    """Return the Python of a new environment."""
    known = [
        str(path)
        for path in Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob(f"versions/{version}.*/bin")
    ]
    path = os.pathsep.join([*known, os.environ["PATH"]])
    asked = [uv, "python", "find", version]
    found = subprocess.run(
        asked, capture_output=True, text=True, check=False, cwd=folder, env=os.environ | {"PATH": path}
    )
    if found.returncode:
        pytest.skip(f"there is no Python {version} here")
    do(uv, "venv", "--quiet", "--python", found.stdout.strip(), folder / "env", cwd=folder)
    return folder / "env" / "bin" / "python"


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works(built, uv, tmp_path, version, resolution):
    python = environment(uv, tmp_path, version)
    install = (uv, "pip", "install", "--quiet", "--python", python, "--resolution", resolution)
    do(*install, f"prudent @ {built['.whl'].as_uri()}", cwd=tmp_path)
    do(uv, "pip", "check", "--python", python, cwd=tmp_path)
    assert do(python, "-c", SMOKE, cwd=tmp_path).endswith("works\n")
    assert VERSION in do(python, "-m", "prudent", "--version", cwd=tmp_path)


def test_the_sdist_works_and_has_all_that_its_tests_need(built, uv, tmp_path):
    python = environment(uv, tmp_path, "3.11")
    do(uv, "pip", "install", "--quiet", "--python", python, f"prudent @ {built['.gz'].as_uri()}", cwd=tmp_path)
    assert do(python, "-c", SMOKE, cwd=tmp_path).endswith("works\n")


PAGE = """
import os, pathlib, shutil, sys
sys.path.insert(0, sys.argv[2])
import matplotlib as mpl
import prudent
from _pages import run
assert prudent.__file__.startswith(sys.prefix), prudent.__file__
mpl.use("agg")
run(sys.argv[1], ".")
"""


@pytest.mark.parametrize("version", ["3.11", "3.14"])
def test_every_page_runs_on_the_wheel(built, uv, tmp_path, version):
    """About 10 minutes: an environment of its own, with what the pages ask to be installed."""
    python = environment(uv, tmp_path, version)
    wanted = f"prudent[test,serve,states,large,verify,cluster] @ {built['.whl'].as_uri()}"
    do(uv, "pip", "install", "--quiet", "--python", python, wanted, cwd=tmp_path)
    do(python, "-m", "prudent", "compile", cwd=tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tests" / "support" / "_pages.py", tmp_path / "tools")
    failed = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        parts = page.relative_to(ROOT / "docs").parts
        if "gallery" not in parts:
            empty = tmp_path / "pages" / "-".join(parts)
            empty.mkdir(parents=True)
            try:
                do(python, "-c", PAGE, page, tmp_path / "tools", cwd=empty)
            except AssertionError as error:
                failed[empty.name] = str(error)[-2000:]
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


def test_types_are_seen_by_users(built, uv, tmp_path):
    python = environment(uv, tmp_path, "3.11")
    do(uv, "pip", "install", "--quiet", "--python", python, f"prudent @ {built['.whl'].as_uri()}", "mypy", cwd=tmp_path)
    (tmp_path / "mine.py").write_text(TYPED)
    assert "Success" in do(python, "-m", "mypy", "--strict", "mine.py", cwd=tmp_path)
    (tmp_path / "wrong.py").write_text(TYPED + "\nwrong: str = solution.error_bound\n")
    with pytest.raises(AssertionError, match="Incompatible types"):
        do(python, "-m", "mypy", "--strict", "wrong.py", cwd=tmp_path)


def test_workflows_are_sound():
    """By the schema of workflows, and by an auditor of what they allow."""
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert files
    tools = Path(sys.executable).parent
    do(tools / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files, cwd=ROOT)
    do(tools / "zizmor", "--offline", "--no-progress", *files, cwd=ROOT)


def test_the_recipe_of_conda_is_read_and_rendered_by_its_builder():
    """Without a channel: what the builder can say before it fetches packages."""
    rattler = pytest.importorskip("rattler_build")
    recipe = rattler.Stage0Recipe.from_yaml((ROOT / "release" / "conda" / "recipe.yaml").read_text())
    (variant,) = recipe.render(rattler.VariantConfig(), rattler.RenderConfig())
    assert (variant.recipe.package.name, str(variant.recipe.package.version)) == ("prudent", VERSION)
    assert "python >=3.11" in map(str, variant.recipe.requirements.run)


def test_a_wheel_with_kernels_compiles_nothing(uv, tmp_path):
    """The first calls of an installation, with the machine code that came with it."""
    kernels = tmp_path / "kernels"
    do(sys.executable, ROOT / "release" / "kernels.py", kernels, cwd=tmp_path)
    call = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    built = subprocess.run(
        call, env=os.environ | {"PRUDENT_KERNELS": str(kernels)}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert "-none-any" not in wheel.name
    python = environment(uv, tmp_path, f"{sys.version_info.major}.{sys.version_info.minor}")
    pinned = ("-c", ROOT / "constraints.txt")  # with the Numba that compiled them
    do(uv, "pip", "install", "--quiet", "--python", python, *pinned, f"prudent @ {wheel.as_uri()}", cwd=tmp_path)
    assert do(python, "-c", SMOKE, cwd=tmp_path).endswith("works\n")
    home = Path(do(python, "-c", "import prudent; print(prudent.__file__)", cwd=tmp_path).strip()).parent
    assert not list(home.rglob("__pycache__/*.nbc"))
