"""Bodies of requests, as types: what is not of them is refused before a bandit sees it."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..bandits.bandit import LinearBandit
from ..bandits.shared import SharedLinearBandit
from ..data.encoder import Features
from ..errors import DataError, ParameterError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_STATE = 20_000_000  # numbers that a bandit may keep: 160 MB
Number = float
Arm = Annotated[str, Meta(min_length=1, max_length=200)] | int
Context = list[Number | list[Number] | dict[str, Any]] | dict[str, Any] | None
Key = Annotated[str, Meta(min_length=1, max_length=200)]


class SlotSpec(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What makes a slot: the options of its bandit and of its journal."""

    arms: list[Arm] | int | None = None
    features: list[str] | dict[str, Any] | None = None  # names, or columns with their kinds
    cross: list[list[str]] | None = None  # products of such columns
    dim: int | None = None
    kind: str = "arms"  # or "items"
    alpha: float | None = None
    noise_sd: float | None = None
    rewards: str = "gaussian"
    noise: str | None = None
    intercept: bool = True
    prior_precision: Annotated[float, Meta(gt=0.0, le=1e12)] | None = None
    first_pulls: int | None = None
    min_propensity: float | dict[str, float] | None = None
    max_propensity: float | dict[str, float] | None = None
    exploration: float | str | None = None
    interactions: str | None = None
    half_life: float | None = None  # in decisions
    places: int | None = None  # of a slate of items, whose chances to be looked at are learned
    seed: int | None = None
    window: float | None = None  # seconds
    default: float = 0.0
    provisional: bool = False
    fallback: Arm | None = None

    def bandit(self, most_arms: int) -> LinearBandit | SharedLinearBandit:
        """Return a new bandit."""
        one_of = ("arms", "items")
        if self.kind not in one_of:
            text = f"kind must be one of {one_of}, got {self.kind!r}"
            raise ParameterError(text, code="unknown-name", argument="kind", value=self.kind, expected=one_of)
        names = (
            "dim", "features", "alpha", "noise_sd", "rewards", "intercept",
            "prior_precision", "min_propensity", "exploration", "half_life",
        )  # fmt: skip
        options: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.seed is not None:
            options["rng"] = self.seed
        if self.features is None and self.dim is None:
            options["dim"] = 0
        if isinstance(self.features, dict):
            options["features"] = Features(self.features, cross=self.cross or ())
        elif self.cross is not None:
            text = "cross is for features with kinds, such as {'country': 'category'}"
            raise ParameterError(text, code="conflicting-arguments", argument="cross")
        arms = self.arms if isinstance(self.arms, int) else len(self.arms or ())
        made = options.get("features")
        features = made.dim if isinstance(made, Features) else len(made) if made is not None else self.dim or 0
        if max(1, arms) * (features + 2) ** 2 > _STATE:
            text = f"{max(1, arms)} arms with {features} features are more than a server keeps of one slot"
            raise ParameterError(text, code="slot-too-large", argument="features", value=features, expected=_STATE)
        if self.kind == "items":
            for name in ("arms", "fallback", "first_pulls", "noise", "max_propensity", "interactions"):
                if getattr(self, name) is not None:
                    text = f"{name} is for a slot of arms: candidates come with each decision"
                    raise ParameterError(text, code="conflicting-arguments", argument=name)
            return SharedLinearBandit(**options, places=self.places)
        if self.places is not None:
            text = "places is for a slot of items"
            raise ParameterError(text, code="conflicting-arguments", argument="places")
        for name in ("first_pulls", "noise", "max_propensity", "interactions"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        if self.arms is None:
            raise ParameterError("arms is missing: give names or a number", code="missing-argument", argument="arms")
        if arms > most_arms:
            text = f"arms holds {arms} arms; this server takes {most_arms} at most"
            raise ParameterError(text, code="too-many-arms", argument="arms", value=arms, expected=most_arms)
        for name in ("min_propensity", "max_propensity"):  # names of arms are texts in JSON
            if isinstance(options.get(name), dict):
                options[name] = _by_arm(options[name], self.arms)
        bandit = LinearBandit(self.arms, **options)
        if self.fallback is not None and self.fallback not in bandit.arms:
            text = f"fallback is {self.fallback!r}, which is not one of the arms"
            raise ParameterError(text, code="unknown-arm", argument="fallback", value=self.fallback)
        return bandit

    def journal_options(self) -> dict[str, Any]:
        """Return the options of the journal that are its own for ever."""
        return {"window": self.window, "default": self.default, "provisional": self.provisional}


class DecideBody(Struct, forbid_unknown_fields=True):
    """A request for one decision."""

    context: Context = None
    arms: list[Arm] | None = None
    top: Annotated[int, Meta(ge=1)] | None = None
    key: Key | None = None
    note: dict[str, Any] | None = None
    detail: bool = False


class DecideBatch(Struct, forbid_unknown_fields=True):
    """Requests for several decisions."""

    requests: Annotated[list[DecideBody], Meta(min_length=1)]


class RewardBody(Struct, forbid_unknown_fields=True):
    """A reward."""

    id: Annotated[str, Meta(max_length=100)]
    reward: Number
    metric: Annotated[str, Meta(min_length=1, max_length=40)] | None = None


class RewardBatch(Struct, forbid_unknown_fields=True):
    """Rewards."""

    rewards: Annotated[list[RewardBody], Meta(min_length=1)]


class CopyBody(Struct, forbid_unknown_fields=True):
    """Where to copy a slot."""

    to: str


def reader(kind: type[Struct]) -> Any:
    """Return a function that reads a body of a type; it raises our errors."""
    decoder: Any = msgspec.json.Decoder(kind)

    def read(body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as error:
            text, _, place = str(error).partition(" - at `$")
            argument = place.strip("`.") or "body"
            if not place and text.startswith("Object contains unknown field"):
                text += f"; there are {', '.join(kind.__struct_fields__)}"
            raise DataError(f"{argument}: {text}", code="wrong-body", argument=argument) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(f"the body is not JSON: {error}", code="not-json", argument="body") from None

    return read


def _by_arm(limits: dict[str, float], arms: list[Arm] | int) -> dict[Arm, float]:
    """Return limits with the names of arms as they are, numbers included."""
    names = {str(arm): arm for arm in (range(arms) if isinstance(arms, int) else arms)}
    return {names.get(name, name): value for name, value in limits.items()}


def checked_slot(name: str) -> str:
    """Return the name of a slot; raise if it is not one."""
    if NAME.fullmatch(name) is None:
        text = f"the name of a slot has letters, digits, _ . or - (64 at most), got {name!r}"[:200]
        raise ParameterError(text, code="slot-name", argument="slot", value=name[:60])
    return name
