"""The one way from a log to its rows: states of a column or of features, groups, another log, gaps and durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._support.checks import positive
from ..data.state_map import StateMap
from ..errors import ParameterError
from ..models.base import held
from ..types import Label, NamesLike, TableLike, TerminalLike
from .mapped import Mapped, map_states
from .measured import refuse_measurements
from .rows import LogRows, close_truncated, open_log, read_rows, read_two
from .state_choice import MIN_COUNT, StateChoice


class Reading(NamedTuple):
    """A log that was read by the arguments of ``from_log``.

    Attributes
    ----------
    rows : LogRows
        Its rows as indices.
    mapped : Mapped or None
        How states were made of features; None where a column has them.
    min_count : float
        How often an admissible action was tried.
    """

    rows: LogRows
    mapped: Mapped | None
    min_count: float


def read(
    log: TableLike,
    discount: float,
    *,
    terminal: TerminalLike,
    absorbing: TerminalLike,
    min_count: float | None,
    prior: Any,
    support: Any,
    features: Sequence[str] | StateMap | None,
    states: NamesLike | StateMap | StateChoice,
    columns: Mapping[str, Any] | None,
    actions: NamesLike,
    end: Label,
    duration: Label,
    gaps: str,
    truncated: str,
    group: str | None = None,
    prior_from: TableLike | None = None,
    measured: str = "error",
) -> Reading:
    """Read a log by the arguments of ``from_log``; ``measured="allow"`` takes states that look like measurements."""
    if group is not None and prior_from is not None:
        message = "prior_from cannot be combined with group; put both logs into one, with a group for each"
        raise ParameterError(message, code="conflicting-arguments", argument="prior_from")
    terminal, absorbing = held(terminal), held(absorbing)
    mapped = None
    if features is not None or isinstance(states, str | StateMap | StateChoice):
        mapped = map_states(
            log, discount, features, states, min_count, prior, support, terminal, columns, end, gaps, duration, group,
            prior_from,
        )  # fmt: skip
    threshold = positive((1 if mapped is None else MIN_COUNT) if min_count is None else min_count, "min_count")
    if mapped is None:
        named: Any = None if isinstance(states, str) else states
        opened = open_log(log, columns, end, duration, gaps, group)
        other = None
        if prior_from is not None:
            other = open_log(prior_from, columns, end, duration, gaps, argument="prior_from")
        declared: Any = named, actions, terminal, absorbing, end
    else:
        opened, other = mapped.opened, mapped.other
        declared = mapped.names, actions, mapped.terminal, absorbing, None
    rows = read_rows(opened, *declared) if other is None else read_two(opened, other, *declared)
    if states is None and mapped is None and measured == "error":
        refuse_measurements(rows, threshold)
    return Reading(close_truncated(rows, truncated), mapped, threshold)
