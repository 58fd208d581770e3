"""The service on loopback: decisions a second over those of the empty endpoint, and their latency at 60% load.

    python -m benchmarks.service [--seconds 3]

One server process with 20 arms and 20 features, on SQLite and on PostgreSQL, both NORMAL; processes, one for every two
cores and at most four, send requests over many connections. All share the cores of this machine, so figures are ratios
of one run. With few cores those who ask are as busy as the server. Processor time of the server for one request is
printed as well: it depends less on what else the machine does, but counts work that is done beside other work. With
that of those who ask and of the database it says how many decisions the cores of the machine allow, whoever takes them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from ._journal_writers import server as database

CONNECTIONS = 32
CLIENTS = max(1, min(4, (os.cpu_count() or 1) // 2))


async def _connection(port, payloads, until, times, pause=None):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    try:
        while (now := time.perf_counter()) < until:
            if pause is not None:
                await asyncio.sleep(random.expovariate(1.0 / pause))
                now = time.perf_counter()
            writer.write(payloads[done % len(payloads)])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - now)
            done += 1
    finally:
        writer.close()
    return done


def _asking(given):
    """Ask servers in turn over a share of the connections; return requests a second and their times."""
    ports, payloads, seconds, pause, numbers = given

    async def ask():
        times, began = [], time.perf_counter()
        work = [_connection(ports[i % len(ports)], payloads, began + seconds, times, pause) for i in numbers]
        done = sum(await asyncio.gather(*work))
        return done / (time.perf_counter() - began), times

    return asyncio.run(ask())


def _rate(pool, ports, payloads, seconds, pause=None):
    """Return requests a second at servers in turn, and the sorted times of all of them."""
    shares = [(ports, payloads, seconds, pause, range(i, CONNECTIONS, CLIENTS)) for i in range(CLIENTS)]
    found = pool.map(_asking, shares, chunksize=1)
    return sum(rate for rate, _ in found), sorted(itertools.chain.from_iterable(times for _, times in found))


def _payload(method, path, body=None):
    text = b"" if body is None else json.dumps(body).encode()
    return f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


def _asked(method, address, body=None):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, content, method=method)
    with urllib.request.urlopen(request, timeout=300) as answer:  # a new slot may have to compile kernels
        return answer.status, json.loads(answer.read())


def _processor_time(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _database_time():
    """Return the processor time of all processes of PostgreSQL."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            head, _, fields = path.read_text().rpartition(")")
            if head.endswith("(postgres"):
                parts = fields.split()
                total += (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Served:
    """Servers on one store, with a slot that has learned a little."""

    def __init__(self, store, count=1):
        self.ports, self.processes, self._pool = [], [], multiprocessing.get_context("spawn").Pool(CLIENTS)
        self._pool.map(time.sleep, [0.1] * CLIENTS, chunksize=1)  # until they are there
        for _ in range(count):
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))
                port = found.getsockname()[1]
            call = [sys.executable, "-m", "prudent", "serve", "--store", store, "--port", str(port)]
            self.processes.append(subprocess.Popen([*call, "--synchronous", "NORMAL", "--log-level", "error"]))
            self.ports.append(port)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self):
        for port in self.ports:
            self._wait(f"http://127.0.0.1:{port}/readyz")
        first = f"http://127.0.0.1:{self.ports[0]}/v1/slots/s"
        rng = random.Random(1)
        contexts = [[round(rng.gauss(0, 1), 4) for _ in range(20)] for _ in range(200)]
        status, _ = _asked("PUT", first, {"arms": 20, "dim": 20, "seed": 1})
        if status == 201:
            for i, context in enumerate(contexts):
                _, one = _asked("POST", f"{first}/decide", {"context": context})
                _asked("POST", f"{first}/reward", {"id": one["id"], "reward": float(i % 3)})
        for port in self.ports:
            self._wait(f"http://127.0.0.1:{port}/v1/slots/s")
        self.empty = [_payload("GET", "/healthz")]
        self.decide = [_payload("POST", "/v1/slots/s/decide", {"context": context}) for context in contexts]

    def _wait(self, address):
        for _ in range(600):
            with suppress(OSError):
                if _asked("GET", address)[0] == 200:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"{address} does not answer")

    def rate(self, payloads, seconds, pause=None):
        """Return requests a second, their times, and seconds of processor time for each: of servers, and of others."""
        before = self._spent()
        rate, times = _rate(self._pool, self.ports, payloads, seconds, pause)
        ours, others = (after - was for after, was in zip(self._spent(), before, strict=True))
        return rate, times, ours / len(times), others / len(times)

    def _spent(self):
        clients = sum(map(_processor_time, self._pool._pool))
        return sum(map(_processor_time, self.processes)), clients + _database_time()

    def close(self):
        self._pool.terminate()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)


def measure(store, seconds=3.0):
    """Return figures of one server on a store, as a dict."""
    served = Served(store)
    try:
        pairs = [(served.rate(served.empty, seconds), served.rate(served.decide, seconds)) for _ in range(3)]
        empty, decide = sorted(pairs, key=lambda pair: pair[1][0] / pair[0][0])[1]
        _, times, *_ = served.rate(served.decide, seconds, pause=CONNECTIONS / (0.6 * decide[0]))
    finally:
        served.close()
    return {
        "empty": empty[0],
        "decide": decide[0],
        "ratio": decide[0] / empty[0],
        "empty_us": 1e6 * empty[2],
        "decide_us": 1e6 * decide[2],
        "beside_us": 1e6 * decide[3],
        "p99": times[int(0.99 * len(times))],
    }


def scaling(store, seconds=3.0):
    """Return decisions a second of one server and of four, on one store."""
    rates = []
    for count in (1, 4):
        served = Served(store, count)
        try:
            rates.append(sorted(served.rate(served.decide, seconds)[0] for _ in range(3))[1])
        finally:
            served.close()
    return rates


def _show(name, found):
    ours, empty = found["decide_us"], found["empty_us"]
    print(
        f"{name}: empty endpoint {found['empty']:.0f}/s, decide {found['decide']:.0f}/s: ratio {found['ratio']:.2f} "
        f"(at least 0.5), asked by {CLIENTS} processes"
    )
    print(f"  processor time of the server {empty:.0f} and {ours:.0f} us: ratio {empty / ours:.2f}")
    beside, cores = found["beside_us"], os.cpu_count() or 1
    most = cores * 1e6 / (ours + beside)
    print(f"  and {beside:.0f} us of those who ask and of the database: {cores} cores allow {most:.0f}/s at most")
    print(f"  p99 of decide at 60% load: {1000 * found['p99']:.1f} ms (at most 10 on a quiet machine)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _show("SQLite, NORMAL", measure(f"sqlite:{folder}", asked.seconds))
    try:
        made = database()
    except Exception as error:  # no server, or no psycopg
        print(f"PostgreSQL: not measured, {error}")
        return
    try:
        _show("PostgreSQL, NORMAL", measure(made.address, asked.seconds))
        one, four = scaling(made.address, asked.seconds)
        print(f"  four servers {four:.0f}/s, one {one:.0f}/s: {four / one:.2f} (never below 1; 2.5 with enough cores)")
    finally:
        made.close()


if __name__ == "__main__":
    main()
