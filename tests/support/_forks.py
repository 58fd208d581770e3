"""A process that forks while six threads use bandits: ``_forks.py FORKS``.

The threads decide with, copy, merge, make and drop bandits, and one decides with and teaches a bandit of its own. Every
child decides with a bandit that the threads use, and makes, copies and merges its own. A child that hangs is stopped
and counted. All scores of all children must differ: they are drawn from a continuum.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import warnings

import numpy as np

from prudent.bandits import LinearBandit

POINT = np.ones(3)
HANGS = 60.0  # seconds
SCORES = 3


def made(seed=None):
    return LinearBandit(["a", "b", "c"], 3, alpha=0.5, noise_sd=0.5, rng=seed)


def merged(bandit):
    past = bandit.copy(stream=1)
    return past.copy(stream=2).merge(past.copy().update(POINT, "a", 1.0), since=past)


def child(bandit, pipe):
    """Use what was inherited and what is new, and say which scores were drawn."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    own = made()
    drawn = [each.select(POINT).score for each in (bandit, own, bandit.copy(stream=0)) for _ in range(SCORES)]
    drawn.append(merged(bandit).select(POINT).score)
    os.write(pipe, repr(drawn).encode())


def main(forks):
    sys.setswitchinterval(2e-4)  # a fork waits for the threads several times
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*multi-threaded", category=DeprecationWarning)
    bandit, ended = made(8), threading.Event()
    bandit.select(POINT)
    merged(bandit.update(POINT, "a", 1.0))
    wrong = []

    def dropping():
        for each in [made() for _ in range(10)]:
            each.select(POINT)

    own = made(2)
    work = [
        lambda: bandit.select(POINT),
        bandit.copy,
        lambda: merged(bandit),
        made,
        dropping,
        lambda: own.update(POINT, own.select(POINT).arm, 1.0),
    ]

    def repeated(call):
        try:
            while not ended.is_set():
                call()
        except BaseException as error:
            wrong.append(error)
            raise

    threads = [threading.Thread(target=repeated, args=(call,)) for call in work]
    for thread in threads:
        thread.start()
    drawn, failed, longest = [], 0, 0.0
    for _ in range(forks):
        reader, pipe = os.pipe()
        began = time.perf_counter()
        pid = os.fork()
        if not pid:
            status = 3
            try:
                child(bandit, pipe)
                status = 0
            finally:
                os._exit(status)
        longest = max(longest, time.perf_counter() - began)
        os.close(pipe)
        with os.fdopen(reader, "rb") as file:
            said = file.read()
        failed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0
        drawn += [float(word) for word in said.decode().strip("[]").split(",") if word]
    ended.set()
    for thread in threads:
        thread.join()
    repeated_scores = len(drawn) - len(set(drawn))
    print(f"{forks} forks, {failed} children failed, {repeated_scores} scores repeated, longest {longest:.2f} s")
    assert not failed
    assert not repeated_scores
    assert not wrong
    assert len(drawn) == forks * (3 * SCORES + 1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
