"""Work in pieces, on threads here or on a cluster: the only module in which pieces become futures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, TypeVar

Piece = TypeVar("Piece", bound=tuple[Any, ...])
WATCH = 2.0  # seconds between two looks at a pool from which nothing comes


class Pool(Protocol):
    """Somebody who computes pieces."""

    @property
    def width(self) -> int:
        """How many pieces it should have at a time."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Begin ``function(*arguments)``."""

    def share(self, what: Any) -> Any:
        """Return what to give to several pieces, as the last of their arguments, in the place of ``what``."""

    def send(self, function: Callable[..., Any], /, *arguments: Any, place: int | None = None) -> Any:
        """As ``share`` for what ``function(*arguments)`` returns, which stays where it was computed.

        Things with places 0, 1, ... are spread evenly, and pieces that have one as their last argument go there.
        """

    def seat(self, value: Any) -> Any:
        """Return what ``send`` returned, with a shorter way there for pieces that take less than a second or so."""

    def forgive(self, error: BaseException, tries: int) -> None:
        """Raise the error of a piece after so many tries, or one that says it better; return to have it tried again."""

    def watch(self) -> None:
        """Raise if nothing more can come, or say why nothing comes."""


def work(
    pool: Pool,
    function: Callable[..., Any],
    pieces: Iterable[Piece],
    keep: Callable[[Piece, Any], None],
    *,
    grace: float = 0.0,
    say: Callable[[str], None] | None = None,
) -> None:
    """Call ``function(*piece)`` for all pieces, some at a time, and ``keep(piece, result)`` for each that is done.

    ``keep`` is called on this thread, once for each piece, in the order in which they end. ``KeyboardInterrupt`` waits
    ``grace`` seconds for those under way, keeps them and goes on its way, after a word to ``say``.
    """
    running: dict[Future[Any], tuple[Piece, int]] = {}

    def begin(piece: Piece, tries: int = 1) -> None:
        running[pool.submit(function, *piece)] = piece, tries

    def settle() -> None:
        done = wait(running, WATCH, return_when=FIRST_COMPLETED).done
        if not done:
            pool.watch()
        for future in done:
            piece, tries = running[future]
            try:
                result = future.result()
            except (Exception, CancelledError) as error:
                pool.forgive(error, tries)
                begin(piece, tries + 1)
            else:
                keep(piece, result)
            del running[future]  # after it is kept: an interrupt must not lose it

    try:
        for piece in pieces:
            begin(piece)
            while len(running) >= pool.width:
                settle()
        while running:
            settle()
    except KeyboardInterrupt:
        if say is not None:
            say("interrupted; keeping what is done in a moment (Ctrl-C again: leave at once)")
        under_way = {future: piece for future, (piece, _) in running.items() if not future.cancel()}
        for future in wait(under_way, timeout=grace).done:
            if future.exception() is None:
                keep(under_way[future], future.result())
        raise


class _Threads(ThreadPoolExecutor):
    """A pool of threads."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="prudent")
        self.width = count + 1  # one in waiting, so that no thread ever does

    def share(self, what: Any) -> Any:
        return what

    def send(self, function: Callable[..., Any], /, *arguments: Any, place: int | None = None) -> Any:
        return function(*arguments)

    def seat(self, value: Any) -> Any:
        return value

    def forgive(self, error: BaseException, tries: int) -> NoReturn:
        raise error

    def watch(self) -> None:
        pass


@contextmanager
def on_threads(count: int) -> Iterator[Pool]:
    """Give a pool of ``count`` threads.

    >>> powers = []
    >>> with on_threads(2) as pool:
    ...     work(pool, pow, [(2, 3), (2, 4)], lambda piece, power: powers.append((*piece, power)))
    >>> sorted(powers)
    [(2, 3, 8), (2, 4, 16)]
    """
    threads = _Threads(count)
    try:
        yield threads
    finally:
        # a second Ctrl-C must not wait for threads; the rest has been waited for already
        threads.shutdown(wait=False, cancel_futures=True)
