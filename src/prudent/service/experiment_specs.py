"""What an experiment is: its spec, as JSON gives it, and its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from ..bandits.bandit import LinearBandit
from ..errors import ParameterError
from .bodies import SlotSpec

CHAMPION, CHALLENGER, HOLDOUT = "champion", "challenger", "holdout"
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Name = Annotated[str, Meta(min_length=1, max_length=40)]


class HoldOut(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A part of the traffic that a fixed distribution over the arms decides; uniform if nothing is said."""

    share: Share
    probabilities: dict[str, Share] | None = None

    def bandit(self, like: LinearBandit) -> LinearBandit:
        """Return a bandit whose propensities are these probabilities, whatever it learns."""
        names = like.arms
        given = self.probabilities or {str(name): 1.0 / len(names) for name in names}
        pinned = {name: given.get(str(name), 0.0) for name in names}
        return LinearBandit(
            names, like.dim, features=like.encoder or like.features, rewards=like.reward_kind, min_propensity=pinned,
            max_propensity=pinned,
        )  # fmt: skip


class Guardrail(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A metric that must not get worse: the experiment pauses if that is refuted at its confidence."""

    range: tuple[float, float] = (0.0, 1.0)
    at_most: float | None = None  # mean of a part
    worse_by: float | None = None  # mean of the challenger minus that of the champion, at most


class ExperimentSpec(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What makes an experiment."""

    unit: Name = "user"  # field of the note
    ramp: Share = 0.0  # share of the traffic for the challenger
    challenger: SlotSpec | None = None
    holdout: HoldOut | None = None
    control: str | int | None = None  # an arm with a fixed share of the champion's decisions
    control_share: Share | None = None
    min_propensity: Share | dict[str, Share] | None = None
    max_propensity: Share | dict[str, Share] | None = None
    shadows: dict[Name, SlotSpec] = {}
    sticky: Annotated[float, Meta(gt=0.0)] | None = None  # seconds
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.95
    planned: Annotated[int, Meta(ge=1)] | None = None  # rewards of a part at which intervals are to be narrowest
    reward_range: tuple[float, float] | None = None
    promote_above: float | None = None  # None: never by itself
    stop_below: float | None = None
    guardrails: dict[Name, Guardrail] = {}

    def limits(self, arms: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Return min_propensity and max_propensity of the champion, the control arm included."""
        names = {str(arm): arm for arm in arms}
        low, high = self.min_propensity, self.max_propensity
        if self.control is not None and self.control_share is not None:
            low, high = ({str(arm): one for arm in arms} if isinstance(one, float | int) else dict(one or {})
                         for one in (low, high))  # fmt: skip
            low[str(self.control)] = high[str(self.control)] = self.control_share
        return tuple(
            {names.get(arm, arm): value for arm, value in one.items()} if isinstance(one, dict) else one
            for one in (low, high)
        )  # type: ignore[return-value]

    def check(self, arms: Sequence[Any]) -> None:
        """Raise unless the spec suits a slot with these arms."""
        held = 0.0 if self.holdout is None else self.holdout.share
        names = {str(arm) for arm in arms}
        for argument, wrong, text in (
            ("ramp", self.ramp + held > 1.0, f"ramp and holdout.share sum to {self.ramp + held}, above 1"),
            ("ramp", self.ramp > 0.0 and self.challenger is None, "ramp is above 0, and there is no challenger"),
            ("control", (self.control is None) != (self.control_share is None), "give control and control_share"),
            (
                "control",
                self.control is not None and str(self.control) not in names,
                f"control is {self.control!r}, not one of the arms",
            ),
            (
                "reward_range",
                self.reward_range is not None and not self.reward_range[0] < self.reward_range[1],
                f"reward_range must be the lowest and the highest possible reward, got {self.reward_range}",
            ),
        ):
            if wrong:
                raise ParameterError(text, code="experiment", argument=argument)
        if self.holdout is not None and self.holdout.probabilities is not None:
            given = self.holdout.probabilities
            if not set(given) <= names or abs(sum(given.values()) - 1.0) > 1e-9:
                text = "holdout.probabilities must be of arms of the slot and sum to 1"
                raise ParameterError(text, code="experiment", argument="holdout.probabilities")
        for name, guardrail in self.guardrails.items():
            if not guardrail.range[0] < guardrail.range[1]:
                text = f"guardrails.{name}.range must be the lowest and the highest possible value"
                raise ParameterError(text, code="experiment", argument=f"guardrails.{name}.range")


class ExperimentState(Struct):
    """An experiment as it is: journals are names in the registry."""

    spec: ExperimentSpec
    status: str  # running, paused, stopped or promoted
    salt: str
    started: float
    champion: str
    journals: dict[str, str] = field(default_factory=dict)  # of the challenger and the hold-out
    retired: list[str] = field(default_factory=list)  # journals whose late rewards are still taken
    limits: tuple[Any, Any] = (None, None)  # min_propensity and max_propensity of the champion before the experiment

    @property
    def ended(self) -> bool:
        """Whether all traffic is the champion's for good."""
        return self.status in ("stopped", "promoted")
