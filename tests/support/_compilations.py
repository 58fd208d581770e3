"""A plugin of pytest that fails the session if a kernel was compiled, and lists what was: ``-p _compilations``."""

from numba.core import event

COMPILED: list[str] = []


class Listener(event.Listener):
    def on_start(self, event):
        pass

    def on_end(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("prudent"):
            COMPILED.append(f"{function.__module__}.{function.__qualname__}{event.data['args']}")


def pytest_sessionstart(session):
    event.register("numba:compile", Listener())


def pytest_runtest_logreport(report):
    if report.when == "teardown" and COMPILED:
        print(f"\n{report.nodeid} or an earlier one compiled:", *COMPILED, sep="\n  ")
        COMPILED.clear()
        FAILED.append(report.nodeid)


FAILED: list[str] = []


def pytest_sessionfinish(session, exitstatus):
    if FAILED:
        session.exitstatus = 1
