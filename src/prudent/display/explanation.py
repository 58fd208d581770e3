"""Explanations of an action in words: what is known of each action, and what would change the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .words import name_of, number_format, plural


class OutcomeView(NamedTuple):
    """One outcome of an action.

    Attributes
    ----------
    outcome : hashable
        Its name, or its number.
    next_state : hashable or None
        The state it leads to, by name; None where the process ends.
    value : float
        Its reward and the discounted value of the next state.
    probability : float
        Its probability on average over the posterior.
    tail_probability : float
        The same on average over the bad cases that the risk measure looks at.
    contribution : float
        Its part of the difference between mean and risk value; these add up.
    """

    outcome: Any
    next_state: Any
    value: float
    probability: float
    tail_probability: float
    contribution: float


@dataclass(frozen=True)
class ActionView:
    """What the posterior says about one action, one step ahead of the values of a solution.

    Attributes
    ----------
    action : hashable
        Its name.
    chosen : bool
        Whether the policy takes it.
    value : float
        What the solution compares: the risk (CVaR) of the one-step value.
    mean, sd : float
        Mean and standard deviation of the one-step value.
    quantiles : dict of float to float
        Quantiles of the one-step value; empty in a known model.
    evidence : float or None
        Observations of its source beyond the prior.
    total_count : float or None
        The same with the prior.
    outcomes : tuple of OutcomeView
        Its outcomes, largest contribution first.
    overtakes_after : int or None
        Observations of it, like those so far, after which it beats the chosen action.
    ambiguous : float
        Observations of its source that several outcomes explain; with any, its counts are approximate.
    """

    action: Any
    chosen: bool
    value: float
    mean: float
    sd: float = 0.0
    quantiles: dict[float, float] = field(default_factory=dict)
    evidence: float | None = None
    total_count: float | None = None
    outcomes: tuple[OutcomeView, ...] = ()
    overtakes_after: int | None = None
    ambiguous: float = 0.0


def sentences(
    *,
    state: Any,
    action: Any,
    probability: float,
    alpha: float | None,
    risk: str,
    actions: Sequence[ActionView],
    overtaken_after: int | None,
    worst_outcome: OutcomeView | None,
    draws: int | None,
    kept: Mapping[Any, float] | None,
) -> list[str]:
    """Return the sentences of an explanation; the arguments are the fields of ``prudent.planning.Explanation``."""
    chosen, rival = actions[0], actions[1] if len(actions) > 1 else None
    number = _number_format(chosen, rival)

    def worth(view: ActionView) -> str:
        return _worth(view, risk, number, has_evidence=any(other.evidence for other in actions))

    share = "" if probability == 1.0 else f" with probability {probability:.3g}"
    lines = [f"In {name_of('state', state)} the policy takes {name_of('action', action)}{share}."]
    lines.append(f"It is worth {worth(chosen)}.")
    if alpha:
        lines.append(
            f"The {'cautious' if alpha > 0.0 else 'optimistic'} value is CVaR at level {alpha:g}: the average "
            f"over the {'worst' if alpha > 0.0 else 'best'} {100.0 * (1.0 - abs(alpha)):.3g}% of what the data "
            "leaves possible."
        )
    elif risk not in ("value", "mean"):
        mood = "cautious" if chosen.value <= chosen.mean else "optimistic"
        of = "" if draws is None else f" of {draws:,} posterior draws"
        lines.append(f"The {mood} value is {'the ' * (draws is None)}{risk}{of}.")
    unclear = sum(view.ambiguous for view in actions)
    if unclear:
        lines.append(f"The counts are approximate: several outcomes explain {plural(unclear, 'observation')}.")
    if alpha is not None and draws is not None:
        lines.append(f"All numbers here are from {draws:,} posterior draws.")
    lines += _tail(chosen)
    if rival is None:
        return [*lines, "No other action is admissible there."]
    other = name_of("action", rival.action)
    if kept:
        others = ", ".join(f"{name_of('action', name)} {share:.3g}" for name, share in kept.items())
        lines.append(f"Staying close to the baseline leaves probability to other actions: {others}.")
    if rival.value > chosen.value and kept is not None:
        why = "but too few data let the policy move from the baseline to it"
        return [*lines, f"At these values {other} is better, worth {worth(rival)}, {why}."]
    if rival.value > chosen.value:
        return [*lines, f"At these values it is not the best: {other} is worth {worth(rival)}."]
    lines.append(f"Next best is {other}, worth {worth(rival)}.")
    if rival.mean > chosen.mean:
        less = "less is known of it, and " if (rival.total_count or 0.0) < (chosen.total_count or 0.0) else ""
        cases = f"{less}its bad cases" if chosen.value <= chosen.mean else "its good cases"
        lines.append(
            f"On average {other} would be better by {number(rival.mean - chosen.mean)}, but {cases} are worse."
        )
    if risk != "value" and draws is None and alpha is not None:
        lines += _changes(actions, alpha, overtaken_after, worst_outcome)
    return lines


def outcome_named(view: ActionView, outcome: OutcomeView) -> str:
    """Return the state that an outcome leads to, with the outcome itself where the state does not identify it."""
    target = "the end" if outcome.next_state is None else name_of("state", outcome.next_state)
    unique = sum(other.next_state == outcome.next_state for other in view.outcomes) == 1
    same = isinstance(outcome.outcome, int) or outcome.outcome == outcome.next_state
    return target if unique and same else f"outcome {outcome.outcome!r} (to {target})"


def _worth(view: ActionView, risk: str, number: Callable[[float], str], *, has_evidence: bool) -> str:
    if risk == "value":
        return number(view.value)
    text = f"{number(view.mean)} on average (standard deviation {number(view.sd)})"
    if not view.quantiles:  # sets of probabilities
        text = f"{number(view.mean)} at the centre of its set"
    if risk != "mean":
        text = f"{number(view.value)} with {'caution' if view.value <= view.mean else 'optimism'}, {text}"
    if view.total_count is None or view.evidence is None:
        return text
    if not has_evidence:  # the posterior does not tell data from prior
        return f"{text}; total count {view.total_count:.6g}"
    return f"{text}; {plural(view.evidence, 'observation')}"


def _tail(view: ActionView) -> list[str]:
    """Return which outcomes make the bad cases bad, or the good ones good."""
    price = view.mean - view.value
    outcomes = view.outcomes if price > 0.0 else view.outcomes[::-1]
    drivers = [o for o in outcomes if price != 0.0 and o.contribution / price >= 0.1][:3]
    if not drivers:
        return []
    text = ", ".join(
        f"{outcome_named(view, o)} is {'more' if o.tail_probability > o.probability else 'less'} likely "
        f"({o.tail_probability:.1%}, on average {o.probability:.1%})"
        for o in drivers
    )
    return [f"In its {'bad' if price > 0.0 else 'good'} cases {text}."]


def _changes(
    actions: Sequence[ActionView], alpha: float | None, overtaken_after: int | None, worst: OutcomeView | None
) -> list[str]:
    """Return what would change the choice."""
    lines = ["What would change the choice, if later states keep their values:"]
    chosen = name_of("action", actions[0].action)
    rivals = [view for view in actions[1:] if view.overtakes_after is not None]
    if rivals:
        rival = min(rivals, key=lambda view: view.overtakes_after or 0)
        count = plural(rival.overtakes_after or 0, "more observation")
        lines.append(f"- {count} of {name_of('action', rival.action)}, if they are like those so far;")
    elif alpha:
        lines.append("- no number of further observations of another action, if they are like those so far;")
    else:
        lines.append("- no further observations that are like those so far: the averages stay;")
    if worst is not None:
        outcome = f"{outcome_named(actions[0], worst)}, its worst plausible outcome"
        if overtaken_after is None:
            lines.append(f"- not even {chosen} ending from now on in {outcome}.")
        else:
            ends = "that ends" if overtaken_after == 1 else "that all end"
            lines.append(f"- {plural(overtaken_after, 'more observation')} of {chosen} {ends} in {outcome}.")
    return lines


def _number_format(chosen: ActionView, rival: ActionView | None) -> Callable[[float], str]:
    """Return a formatter with the digits that tell the first two actions apart."""
    sizes = [abs(chosen.value), chosen.sd, abs(chosen.mean - chosen.value)]
    if rival is not None:
        sizes.append(abs(chosen.value - rival.value))
    return number_format([size for size in sizes if size > 1e-9 * max(sizes)] or [1.0])
