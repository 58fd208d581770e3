"""Servers that are killed again and again under load, and their database with them; used by test_kills.py."""

from __future__ import annotations

import itertools
import random
import socket
import subprocess
import sys
import threading
import time

import httpx


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(store, port, *options):
    """Start a server on loopback and wait until it is ready, at most a minute."""
    call = [sys.executable, "-m", "prudent", "serve", "--store", store, "--port", str(port), *options]
    server = subprocess.Popen([*call, "--log-level", "critical"], stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200:
                return server
        except httpx.HTTPError:
            if server.poll() is not None:  # the database was away when it started
                server = subprocess.Popen(server.args, stderr=subprocess.DEVNULL)
        time.sleep(0.1)
    server.kill()
    server.wait()
    raise AssertionError("the server does not get ready")


class Load:
    """Threads that decide and reward at the servers in turn, and write down what was acknowledged.

    A request that gets no answer is sent again with the same key, perhaps to another server.
    """

    def __init__(self, ports, threads=4):
        self.decided, self.rewarded, self.refused = {}, {}, {}
        self.stop = threading.Event()
        self._ports = ports
        self._threads = [threading.Thread(target=self._run, args=[i]) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, number):
        rng = random.Random(number)
        with httpx.Client(timeout=10) as http:
            for count in itertools.count(1):
                key = f"{number}-{count}"
                found = self._sent(http, rng, "decide", {"context": [float(count % 5), 1.0], "key": key})
                if found is None:
                    return
                assert key not in self.decided
                self.decided[key] = (found["id"], found["arm"], found["propensity"])
                value = float(count % 3)
                found = self._sent(http, rng, "reward", {"id": found["id"], "reward": value})
                if found is None:
                    return
                assert found["status"] in ("ok", "duplicate"), found  # of a reward whose answer was lost
                self.rewarded[self.decided[key][0]] = value

    def _sent(self, http, rng, what, body):
        """Return the answer to a request, which is sent again until there is one; None at the end."""
        while not self.stop.is_set():
            try:
                answer = http.post(f"http://127.0.0.1:{rng.choice(self._ports)}/v1/slots/home/{what}", json=body)
                if answer.status_code == 200:
                    return answer.json()
                code = answer.json()["code"]
                assert answer.status_code == 503, answer.text
                self.refused[code] = self.refused.get(code, 0) + 1
            except httpx.HTTPError:
                pass
            time.sleep(0.02)
        return None

    def end(self):
        self.stop.set()
        for thread in self._threads:
            thread.join(30)
