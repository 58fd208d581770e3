"""Estimation of a model and its posterior from a log of transitions.

``from_log`` works in stages, each a function of the results before it: ``reading.read`` reads the log into indices
(``prudent.data.flow`` says which row follows which),
``counts.Transitions`` counts distinct transitions, ``counts.often_tried`` says which pairs are admissible,
``counts.supported`` which outcomes are possible, ``rewards.rewards_of`` what they earn. ``support.support_changes``
compares the choices under two supports for the summary of the log. ``groups`` says what sites learn from each other.
With features, ``mapped.map_states`` makes states of them first: ``feature_log`` reads the columns, ``state_choice``
chooses a map by held-out episodes.
"""

from __future__ import annotations

from ..models.log_summary import LogSummary, Pooling, SupportChange
from .from_log import from_log
from .state_choice import StateChoice, choose_states

__all__ = ["LogSummary", "Pooling", "StateChoice", "SupportChange", "choose_states", "from_log"]
