"""Decisions as rows of a store, and rows as decisions and rewards: one codec for arms and for items.

The row of a decision between arms holds the context. Of items it holds the hash of the candidates. A set of candidates
and the features of each are stored once, by hash: a catalogue of 300 items with 20 features takes 48 kB once, and a
decision 16 bytes. A slate is listed in the options of the row, and each of its positions has an id and a reward of its
own.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray
from .._support.state import saved_kind
from ..bandits.bandit import LinearBandit
from ..bandits.decision import Arm, Decision
from ..bandits.kernels.step import LARGEST
from ..bandits.shared import SharedLinearBandit
from ..bandits.sparse import SparseLinearBandit
from ..errors import DataError, ParameterError, PrudentError
from .export import COLUMNS, SHARED_COLUMNS
from .store import New, Taken

AnyBandit = LinearBandit | SharedLinearBandit
CALLS = (  # changes of a bandit in the log
    "add_arm", "remove_arm", "forget", "name_features", "fade", "migrate", "set_limits", "learn_features",
)  # fmt: skip
_HASH = 16  # bytes
_KNOWN = 20_000  # hashes and contents that are remembered
_SAME_CHANCE = 1e-6
_LITTLE = sys.byteorder == "little"  # as numbers are stored


class Choice(NamedTuple):
    """What the row of a decision records."""

    slate: list[Arm]
    arms: list[Arm] | None  # eligible arms or candidates; None for all arms
    context: FloatArray  # [D] of arms; features [k, D] of candidates
    points: list[FloatArray]  # [D] each, what the rewards of the slate are learned with
    scores: list[float | None]
    clock: dict[str, Any] | None  # numbers of decisions that it depended on
    given: bool  # by somebody else, see ``Journal.record``


class Codec:
    """How decisions of a bandit are written and read. Methods that read rows raise ValueError if they cannot."""

    def __init__(self, items: bool, content: Callable[[bytes], bytes | None]) -> None:
        self.items = items
        self.columns = SHARED_COLUMNS if self.items else COLUMNS
        self._content, self._read, self._written = content, OrderedDict[bytes, Any](), OrderedDict[bytes, None]()

    def written(self, new: New) -> None:
        """Note that a decision is in the store, so that its candidates need not be written again."""
        for name in new.contents:
            self._written[name] = None
        while len(self._written) > _KNOWN:
            self._written.popitem(last=False)

    def write(
        self,
        bandit: AnyBandit,
        decision: Decision,
        state: tuple[int, int, float, int, int],
        clock: dict[str, Any] | None,
        key: str | None,
        note: bytes | None,
    ) -> New:
        """Return a decision to be written; ``state`` is what makes it repeatable, the first five fields of its row."""
        options: dict[str, Any] = {} if clock is None else {"clock": clock}
        contents: dict[bytes, bytes] = {}
        arm, arms, eligible = decision.arm, decision.arms, None
        score = decision.score + 0.0  # no minus zero, which not every store holds
        if self.items:
            slate = decision.slate
            if len(slate) > 1:
                options |= {"slate": slate, "scores": [float(each) + 0.0 for each in decision.scores]}
            context = self._put(decision.candidates, arms, contents)
        else:
            context = decision.context.astype("<f8", copy=False).tobytes()
            every = bandit.arms if isinstance(bandit, LinearBandit) else None
            eligible = None if arms is every or arms == every else json.dumps(arms)
        text = json.dumps(options) if options else None
        chance = propensity_of(decision)
        return New(Taken(*state, _name_json(arm), eligible, context, score, chance, text, key, note), None, contents)

    def write_plain(self, decision: Decision, state: tuple[int, int, float, int, int], about: Sequence[Any]) -> New:
        """Return a decision between all arms, which depends on no numbers of decisions; ``about`` are key and note."""
        context = (decision.context if _LITTLE else decision.context.astype("<f8")).tobytes()
        chosen = (_name_json(decision.arm), None, context, decision.score + 0.0, decision.propensity, None)
        return New(tuple.__new__(Taken, (*state, *chosen, *about)))

    def _put(self, candidates: Any, arms: tuple[Arm, ...], contents: dict[bytes, bytes]) -> bytes:
        """Return the hash of a set of candidates; what the store may not have yet is added to ``contents``."""
        rows = np.ascontiguousarray(candidates, dtype="<f8")
        names = b"" if arms == tuple(range(len(rows))) else json.dumps(arms).encode()
        name = _hash(names + b"\0" + rows.tobytes())
        if name not in self._written:
            parts = []
            for row in rows:
                part = _hash(row.tobytes())
                parts.append(part)
                if part not in self._written:
                    contents[part] = row.tobytes()
            contents[name] = len(parts).to_bytes(8, "little") + b"".join(parts) + names
        return name

    def _candidates(self, name: bytes) -> tuple[FloatArray, list[Arm]]:
        """Return features [k, D] and names of a set of candidates."""
        if name in self._read:
            self._read.move_to_end(name)
            return self._read[name]
        data = self._part(name)
        size = int.from_bytes(data[:8], "little")
        end = 8 + size * _HASH
        if size < 1 or len(data) < end:
            raise ValueError(f"{len(data)} bytes of {size} candidates")
        rows = np.array([np.frombuffer(self._part(data[i : i + _HASH]), "<f8") for i in range(8, end, _HASH)])
        arms = json.loads(data[end:]) if data[end:] else list(range(size))
        if not isinstance(arms, list) or len(arms) != size or _hash(data[end:] + b"\0" + rows.tobytes()) != name:
            raise ValueError("its candidates are not those of their hash")
        self._read[name] = rows, arms
        while len(self._read) > 256:
            self._read.popitem(last=False)
        return rows, arms

    def _part(self, name: bytes) -> bytes:
        data = self._content(name)
        if data is None:
            raise ValueError(f"its candidates {name.hex()} are missing")
        return data

    def read(self, row: Taken) -> Choice:
        """Return what the row of a decision records."""
        arm, options = name_of(row.arm or ""), {} if row.options is None else json.loads(row.options)
        arms = None if row.arms is None else json.loads(row.arms)
        if type(arm) not in (str, int) or not isinstance(options, dict) or not isinstance(arms, (list, type(None))):
            raise ValueError(f"its arm is {arm!r}, its options are {options!r}, and arms must be a list, got {arms!r}")
        slate, scores = options.get("slate", [arm]), options.get("scores", [row.score])
        if (
            not isinstance(slate, list)
            or slate[:1] != [arm]
            or not isinstance(scores, list)
            or len(scores) != len(slate)
        ):
            raise ValueError(f"its slate is {slate!r} with scores {scores!r}")
        clock = options.get("clock")
        if clock is not None and not (isinstance(clock, dict) and isinstance(clock.get("tries"), list)):
            raise ValueError(f"its clock is {clock!r}")
        if self.items:
            context, arms = self._candidates(row.context or b"")
            points = [context[arms.index(each)] for each in slate]
        else:
            context = np.frombuffer(row.context or b"", "<f8")
            points = [context] * len(slate)
        return Choice(slate, arms, context, points, scores, clock, bool(options.get("given")))

    def decide(self, bandit: Any, row: Taken, choice: Choice) -> Decision:
        """Take a decision again, in the state that a bandit is in."""
        bandit.seek(row.stream, row.position)
        if choice.clock is not None:
            bandit.set_clock(choice.clock["decisions"], dict(choice.clock["tries"]))
        top = {"top": len(choice.slate)} if self.items else {}
        decision: Decision = bandit.select(choice.context, choice.arms, **top)
        return decision

    def learn(self, bandit: AnyBandit, row: Taken, place: int, reward: Any) -> str:
        """Learn a reward of a decision; return what became of it, as ``Journal.reward`` does."""
        choice = self.read(row)
        if not 0 <= place < len(choice.slate):
            raise ValueError(f"place {place} of a slate of {len(choice.slate)}")
        arm = choice.slate[place]
        if isinstance(bandit, LinearBandit) and arm not in bandit.arms:
            return "arm removed"
        try:
            given = timed(bandit, row.time)
            if isinstance(bandit, SharedLinearBandit) and bandit.places is not None:
                given |= {"place": place}
            bandit.update(longer(choice.points[place], bandit), arm, reward, **given)
        except DataError as error:
            if error.code != "too-large":  # a posterior would be out of range
                raise
            return "not learned"
        return "ok"

    def difference(self, row: Taken, choice: Choice, again: Decision) -> str:
        """Return how a decision differs from the one that its state gives; "" if it does not.

        Scores may differ by 1e-9 of themselves, propensities by 1e-6: on another machine numbers are rounded otherwise.
        """
        if list(again.slate) != choice.slate:
            return f"recorded with {choice.slate}, but its state gives {list(again.slate)}"
        for found, expected in zip(choice.scores, again.scores.tolist(), strict=True):
            if found is None or not abs(found - expected) <= 1e-9 * abs(expected):
                return f"recorded with the score {found}, but its state gives {expected}"
        chance, expected = row.propensity, propensity_of(again)
        slack = _SAME_CHANCE + 10.0 * (again.propensity_error or 0.0 if expected is not None else 0.0)
        if (chance is None) != (expected is None) or abs((chance or 0.0) - (expected or 0.0)) > slack:
            return f"recorded with the propensity {chance}, but its state gives {expected}"
        return ""


def longer(point: FloatArray, bandit: AnyBandit) -> FloatArray:
    """Return a context or features of items [..., D]; features that ``migrate`` added after it are 0."""
    size = point.shape[-1]
    if size not in bandit.earlier_dims:
        return point
    return np.concatenate([point, np.zeros((*point.shape[:-1], bandit.dim - size))], axis=-1)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_HASH).digest()


@lru_cache(4096, typed=True)
def _name_json(name: Arm) -> str:
    """Return the name of an arm as JSON."""
    return json.dumps(name)


@lru_cache(4096)
def name_of(text: str) -> Any:
    """Return what the JSON of the name of an arm says."""
    return json.loads(text)


def bandit_of(content: bytes, name: str) -> AnyBandit:
    """Return the bandit of a snapshot, whose evidence fades only by entries; ``name`` is what errors call it."""
    kinds: dict[str, type[AnyBandit]] = {
        "SharedLinearBandit": SharedLinearBandit, "SparseLinearBandit": SparseLinearBandit,
    }  # fmt: skip
    return kinds.get(saved_kind(content), LinearBandit).from_bytes(content, name).hold()


def timed(bandit: AnyBandit, at: float) -> dict[str, Any]:
    """Return the argument ``time`` of a bandit whose evidence fades with time."""
    half = bandit.half_life
    return {} if half is None or half.unit == "decisions" else {"time": at}


def propensity_of(decision: Decision) -> float | None:
    """Return the propensity of a decision, or None if its settings define none."""
    try:
        return decision.propensity
    except ParameterError:  # not defined for these settings
        return None


def clock_of(bandit: AnyBandit, before: dict[str, Any] | None, arms: tuple[Arm, ...]) -> dict[str, Any] | None:
    """Return the numbers of decisions that one depended on, as its row holds them; None if it depended on none."""
    if before is None:
        return None
    first = bandit.settings.first_pulls
    tries = [(arm, before["tries"][arm]) for arm in arms if arm in before["tries"]]
    return {"decisions": before["decisions"], "tries": tries if any(count < first for _, count in tries) else []}


def warm_up(twin: Any) -> None:
    """Decide and learn once, so that kernels are compiled now and not while other processes wait."""
    shared = isinstance(twin, SharedLinearBandit)
    point = np.zeros((2, twin.dim) if shared else twin.dim)
    with suppress(PrudentError):  # settings that do not allow so few or so many arms, say
        for reward in (0.0, 1.0, 0.0):  # before and after the first data
            decision: Decision = twin.select(point, [0, 1] if shared else None)
            propensity_of(decision)
            if isinstance(twin, LinearBandit):
                twin.select_each(np.zeros((2, twin.dim)))
            twin.update(decision.context, decision.arm, reward)


def reward_number(reward: Any, name: str) -> float:
    """Return a reward as a finite float."""
    try:
        if type(reward) is float:
            value = reward
        else:
            value = float("nan") if isinstance(reward, (str, bytes)) or np.ndim(reward) else float(reward)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not abs(value) <= LARGEST:
        text = f"{name} is {reward!r}, expected a finite number of at most {LARGEST}"
        raise DataError(text, code="not-finite", argument="reward", value=reward)
    return value + 0.0  # SQLite does not know -0.0
