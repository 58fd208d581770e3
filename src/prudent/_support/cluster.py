"""The workers of a dask cluster, as a pool.

A worker computes a piece only if it has the very software that asks for it: the stamp of ``_support/versions.py``
travels with each piece and is looked at before anything of ours is unpacked there. So a worker of another version, also
one that joins later, is refused by name.

Dask gives the pieces of a lost worker to others, and of two answers to one piece takes one. A piece that goes down with
several workers is given up by dask ("KilledWorker", after ``allowed-failures`` of them); it is sent a few times more,
since workers die for other reasons than the piece they have. When the scheduler is lost, so is all that it knew: that
is an error, and whoever keeps finished pieces goes on from there.

A piece that takes a tenth of a second should not wait a fiftieth for the scheduler to hear of it, to pass it on, and to
hear and tell of its end. A value may have a seat: one of dask's actors, which holds the value where it is and does
short pieces with it at once. What an actor does not do, because its worker is gone or for any other reason, becomes a
task like all others.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import pickle
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import ClusterError, ParameterError
from .checks import instance_of
from .pool import work
from .progress import Progress
from .versions import stamp

ANSWER = 10.0  # seconds in which a scheduler must answer
FETCH = 600.0  # seconds in which a result must arrive
FETCHERS = 8  # results that are fetched at a time
RETRIES = 3  # times that a piece which dask gave up is sent again
LEAST_WIDTH = 64  # pieces at a time: also a cluster that grows with its work must see some
SHARE = 8  # pieces for each thread of the cluster, so that all end at about the same time
MOST = 1000  # replications in a piece


def _on_worker() -> tuple[Callable[..., Any], type]:
    """Return what runs on a worker. It travels by value, so that it also runs where another version is installed."""

    def compute(expected: dict[str, str], payload: bytes, arrays: list[Any], *more: Any) -> Any:
        software: dict[str, str] = {}
        with contextlib.suppress(ImportError):
            software = {"prudent": str(importlib.import_module("prudent").__version__)}
            software = importlib.import_module("prudent._support.versions").stamp()
        if software != expected:
            return False, (importlib.import_module("distributed").get_worker().address, software)
        for fits, refusal in more:
            if not fits:
                return False, refusal
        # copies, which may be written to: kernels would be compiled once more for arrays that may not
        function, arguments = pickle.loads(payload, buffers=map(bytearray, arrays))
        return True, function(*arguments, *(value for _, value in more))

    class Actor:
        """Has a value, and computes with it."""

        def __init__(self, value: Any) -> None:
            self._value = value

        def compute(self, expected: dict[str, str], payload: bytes, arrays: list[Any]) -> Any:
            try:
                return compute(expected, payload, arrays, self._value)
            except Exception as error:  # returned: what is raised has to do with the actor
                return None, error

    return compute, Actor


class Seat:
    """A value on a worker, and an actor there that computes with it."""

    def __init__(self, future: Any, actor: Any) -> None:
        self.future, self.actor = future, actor  # dask's futures
        self.home = ""  # the address of the actor's worker, when it is known
        self.lost = False  # whether the actor did not answer

    @property
    def status(self) -> str:
        """See dask's Future."""
        return str(self.future.status)


class Cluster:
    """A pool (see ``prudent._support.pool.Pool``) of the workers that a dask client has."""

    def __init__(self, client: Any, say: Callable[[str], None] | None = None) -> None:
        self.client = client
        self._say = say
        (self._compute, self._actor), self._stamp = _on_worker(), stamp()
        self._dask = importlib.import_module("distributed")
        self._dumps = importlib.import_module("cloudpickle").dumps
        self._sent: dict[Future[Any], Any] = {}
        self._seated: dict[Future[Any], tuple[Seat, tuple[Any, ...]]] = {}  # what actors are to do
        self._lock = threading.Lock()
        # several: a result may be on a worker that was stopped, and others must not wait behind it
        self._fetchers = ThreadPoolExecutor(FETCHERS, thread_name_prefix="prudent-fetch")
        self._workers: dict[str, int] = {}
        self._looked = -math.inf
        self._homes: dict[str, str] = {}  # the worker that should have a value, by the key of its future

    @property
    def threads(self) -> int:
        """How many threads all workers have together; workers may come and go."""
        now = time.monotonic()
        if now - self._looked > 5.0:
            with self._lost():
                self._workers = dict(self.client.ncores())
            self._looked = now
        return sum(self._workers.values())

    @property
    def width(self) -> int:
        """See ``prudent._support.pool.Pool``."""
        return max(LEAST_WIDTH, 4 * self.threads)

    def send(self, function: Callable[..., Any], /, *arguments: Any, place: int | None = None) -> Any:
        """Begin ``function(*arguments)`` and return dask's own future, which may be among the last arguments of others.

        Its value stays on the workers; should it be lost, dask computes it again. ``place`` as for any pool; dask alone
        would put several values on one worker and none on another, and keep moving them.
        """
        name = f"{getattr(function, '__name__', 'piece').strip('_')}-{uuid.uuid4().hex}"
        own, futures = self._split(arguments)
        home = self._homes.get(futures[-1].key) if futures else None
        if place is not None and self.threads:
            seats = [worker for worker, threads in sorted(self._workers.items()) for _ in range(threads)]
            home = self._homes[name] = seats[place % len(seats)]
        return self._begin(self._compute, name, home, self._stamp, *self._packed(function, own), *futures)

    def seat(self, value: Any) -> Seat:
        """Return what ``send`` returned with a seat; see ``prudent._support.pool.Pool``."""
        home = self._homes.get(value.key)
        seat = Seat(value, self._begin(self._actor, f"seat-{value.key}", home, value, actor=True))
        seat.actor.add_done_callback(lambda _: self._find(seat))
        return seat

    def _find(self, seat: Seat) -> None:
        """Have somebody ask where an actor is."""

        def ask() -> None:
            with contextlib.suppress(Exception):  # without an actor there are tasks
                (seat.home,) = self.client.who_has([seat.actor])[seat.actor.key]

        self._later(ask)  # if this pool is closed, the next one asks

    def _begin(self, what: Any, name: str, home: str | None, *arguments: Any, **more: Any) -> Any:
        at = {} if home is None else {"workers": [home], "allow_other_workers": True}
        with self._lost(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # it must be sent, and once
            return self.client.submit(what, *arguments, key=name, pure=False, **at, **more)

    @staticmethod
    def _split(arguments: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        """Return the arguments that are here, and dask's futures of the others."""
        values = [getattr(argument, "future", argument) for argument in arguments]
        there = [value for value in values if hasattr(value, "add_done_callback")]
        return [value for value in values if not hasattr(value, "add_done_callback")], there

    def _packed(self, function: Callable[..., Any], arguments: list[Any]) -> tuple[bytes, list[Any]]:
        """Return what travels: arrays beside the rest of it, so that dask need not copy them once more."""
        buffers: list[pickle.PickleBuffer] = []
        payload = self._dumps((function, arguments), protocol=5, buffer_callback=buffers.append)
        return payload, [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]

    def share(self, what: Any) -> Any:
        """See ``prudent._support.pool.Pool``."""
        return self.send(_as_it_is, what)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """See ``prudent._support.pool.Pool``."""
        ours: Future[Any] = Future()
        ours.set_running_or_notify_cancel()
        seat: Any = arguments[-1] if arguments else None
        own, futures = self._split(arguments)
        near = isinstance(seat, Seat) and not seat.lost and len(futures) == 1  # an actor has no value but its own
        if near and seat.home:
            self._ask_actor(ours, seat, function, own)
        else:
            if near and seat.actor.status == "finished":
                self._find(seat)
            self._ask_dask(ours, function, *arguments)
        return ours

    def _ask_dask(self, ours: Future[Any], function: Callable[..., Any], *arguments: Any) -> None:
        """Have a piece done as a task."""
        theirs = self.send(function, *arguments)
        with self._lock:
            self._sent[ours] = theirs
        theirs.add_done_callback(lambda future: self._later(self._fetch, future, ours))

    def _ask_actor(self, ours: Future[Any], seat: Seat, function: Callable[..., Any], arguments: list[Any]) -> None:
        """Have a piece done by an actor, which has its last argument."""

        client, pack = self.client, self._dask.protocol.to_serialize

        async def follow() -> None:
            answer: Any = None, None
            with contextlib.suppress(Exception):
                message = {"actor": seat.actor.key, "function": "compute", "args": [pack(part) for part in packed]}
                if client.direct_to_workers:
                    reply = await client.rpc(seat.home).actor_execute(**message)
                else:
                    reply = await client.scheduler.proxy(worker=seat.home, msg={"op": "actor_execute", **message})
                answer = reply["result"]
            self._later(self._answered, ours, answer)

        packed = self._stamp, *self._packed(function, arguments)
        with self._lock:
            self._seated[ours] = seat, (function, *arguments, seat)
        client.loop.add_callback(follow)

    def _answered(self, ours: Future[Any], answer: tuple[bool | None, Any]) -> None:
        """Settle what an actor was asked for, or have dask do it if there is no answer."""
        with self._lock:
            seat, piece = self._seated.pop(ours, (None, ()))
        if seat is None:  # somebody else has been asked since
            return
        try:
            fits, result = answer
            if fits is not None:
                ours.set_result(self._opened((fits, result)))
            elif result is not None:
                ours.set_exception(result)
            else:
                seat.lost = True
                self._ask_dask(ours, *piece)
        except BaseException as error:
            ours.set_exception(error)

    def _later(self, what: Callable[..., Any], *arguments: Any) -> None:
        """Have something done beside the event loop, unless the pool is closed: then nobody waits for it any more."""
        with contextlib.suppress(RuntimeError):
            self._fetchers.submit(what, *arguments)

    def _fetch(self, theirs: Any, ours: Future[Any]) -> None:
        try:
            ours.set_result(self._opened(theirs.result(timeout=FETCH)))
        except BaseException as error:
            ours.set_exception(error)
        finally:
            with self._lock:
                self._sent.pop(ours, None)

    def _opened(self, answer: tuple[bool, Any]) -> Any:
        """Return what a worker computed, or raise because it is not one of ours."""
        fits, result = answer
        if fits:
            return result
        worker, software = result
        differ = [name for name, version in self._stamp.items() if software.get(name) != version]
        name = "prudent" if "prudent" in differ or differ == ["source"] else differ[0]
        theirs, ours = software.get(name), self._stamp[name]
        if not software:
            fault = f"has no prudent: install {ours} there"
        elif differ == ["source"]:
            fault = f"has prudent {theirs} with other source code; install the same and restart it"
        else:
            fault = f"has {name} {theirs or 'of another kind'}, here it is {ours}; install the same version everywhere"
        message = f"worker {worker} {fault}"
        raise ClusterError(message, code="worker-software", worker=worker, value=theirs, expected=ours)

    def forgive(self, error: BaseException, tries: int) -> None:
        """See ``prudent._support.pool.Pool``."""
        if isinstance(error, self._dask.KilledWorker):
            if tries <= RETRIES:
                return
            last = error.last_worker.address
            message = f"every worker that ran one of the tasks died, the last at {last}; give workers more memory"
            raise ClusterError(message, code="worker-died", worker=last) from error
        if isinstance(error, self._dask.comm.CommClosedError):  # of a result on its way; the client may not know yet
            time.sleep(0.5)
            if self.client.status == "running" and tries <= RETRIES:
                return
            raise self._gone() from error
        if isinstance(error, CancelledError) or self.client.status not in ("running", "connecting"):
            raise self._gone() from error
        if isinstance(error, ImportError):
            message = f"a worker cannot import what the task needs: {error}"
            raise ClusterError(message, code="worker-software") from error
        raise error

    def watch(self) -> None:
        """See ``prudent._support.pool.Pool``."""
        if self.client.status != "running":
            raise self._gone()
        if self.threads == 0 and self._say is not None:
            address = getattr(self.client.scheduler, "address", "") or "a scheduler that is gone"
            self._say(f"the cluster at {address} has no workers; waiting for some")
            self._say = None
        with self._lock:
            asked = list(self._seated.items())
        for ours, (seat, _) in asked:
            if seat.home not in self._workers:  # it may have been stopped
                self._answered(ours, (None, None))

    def _gone(self) -> ClusterError:
        return ClusterError("the connection to the scheduler of the cluster was lost", code="connection-lost")

    @contextmanager
    def _lost(self) -> Iterator[None]:
        """Call whatever a client does without its scheduler by one name."""
        try:
            yield
        except (OSError, CancelledError, RuntimeError) as error:
            raise self._gone() from error

    def close(self) -> None:
        """Call back what nobody waits for any more."""
        with self._lock:
            left = list(self._sent.values())
        if left and self.client.status == "running":
            with contextlib.suppress(Exception):
                self.client.cancel(left, force=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)


@contextmanager
def on_cluster(client: Any, say: Callable[[str], None] | None = None) -> Iterator[Cluster]:
    """Give the pool of a dask client, of a cluster object, or of the scheduler at an address."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        message = "client needs dask.distributed, which is not installed: pip install distributed"
        raise ParameterError(message, code="missing-package", argument="client", expected="distributed") from None
    own = isinstance(client, str) or hasattr(client, "scheduler_address")
    if own:
        try:
            client = distributed.Client(client, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            message = f"client is {client!r}, where no dask cluster answers: {error}"
            raise ParameterError(message, code="no-cluster", argument="client", value=client) from None
    instance_of(client, "client", distributed.Client, "; a dask cluster or the address of its scheduler works, too")
    if client.asynchronous:
        message = "client is asynchronous; pass a synchronous one: Client(...)"
        raise ParameterError(message, code="wrong-type", argument="client")
    if client.status != "running":
        message = f"client is {client.status}, expected one with a connection to a scheduler"
        raise ParameterError(message, code="no-cluster", argument="client", value=client.status)
    pool = Cluster(client, say)
    try:
        yield pool
    finally:
        pool.close()
        if own:
            with contextlib.suppress(Exception):
                client.close(timeout=5)


def replicated(
    client: Any,
    compute: Callable[..., Any],
    agents: Iterable[tuple[Any, ...]],
    replications: int,
    first: int,
    what: str = "simulating",
) -> list[list[Any]]:
    """Return ``compute(*agent, first, count)`` for all agents and replications, from the workers of a cluster.

    For each of ``agents``, tuples of arguments, there are the results of ranges of replications, in their order.
    """
    listed = list(agents)
    total = replications * len(listed)
    results: dict[tuple[int, int], Any] = {}
    progress = Progress(what)
    done = 0

    def keep(piece: tuple[int, int, int, Any], result: Any) -> None:
        nonlocal done
        i, start, count, _ = piece
        results[i, start], done = result, done + count
        progress.show(f"run {done} of {total}")

    with on_cluster(client, progress.say) as pool:
        size = max(1, min(MOST, -(-total // (SHARE * max(1, pool.threads)))))
        ranges = [(first + start, min(size, replications - start)) for start in range(0, replications, size)]
        shared = pool.share(importlib.import_module("cloudpickle").dumps((compute, listed)))
        try:
            work(pool, _replications, [(i, *part, shared) for i in range(len(listed)) for part in ranges], keep)
        finally:
            progress.close()
    return [[results[i, start] for start, _ in ranges] for i in range(len(listed))]


def _as_it_is(what: Any) -> Any:
    return what


def _replications(i: int, first: int, count: int, shared: bytes) -> Any:
    compute, agents = pickle.loads(shared)  # here: arrays that dask moves are read-only, and kernels see that
    return compute(*agents[i], first, count)
