"""A known model as a planning problem: the risk-neutral operator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import ModelError, ParameterError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..types import FloatArray, PolicyLike, RngLike
from .base import Ended, PlanningProblem
from .execute.threads import Threads
from .explain import Explanation, explain_known
from .row_risks import MeanRows
from .undiscounted import ended_mdp


class KnownProblem(PlanningProblem):
    """A known model, valued by the mean of its return.

    Parameters
    ----------
    mdp : MDP
        The model.

    Raises
    ------
    ModelError
        If ``mdp`` is no MDP.
    """

    model: MDP

    def __init__(self, mdp: MDP) -> None:
        if not isinstance(mdp, MDP):
            hint = "; use BayesianRiskMDP(model, posterior, alpha)" if isinstance(mdp, UncertainMDP) else ""
            message = f"expected an MDP or a BayesianRiskMDP, got {type(mdp).__name__}{hint}"
            raise ModelError(message, code="wrong-type", value=type(mdp).__name__)
        self.model = mdp

    def operator(  # noqa: D102
        self, draws: npt.ArrayLike | None = None, rng: RngLike = None, threads: int | None = None
    ) -> Threads:
        for name, value in (("draws", draws), ("rng", rng)):
            if value is not None:
                message = f"{name} is only for a BayesianRiskMDP; a known model has no posterior to draw from"
                raise ParameterError(message, code="conflicting-arguments", argument=name)
        return Threads(MeanRows(self.model.transition, self.model.reward, self.model.discount, self.model.leaks))

    def undiscounted(  # noqa: D102
        self, policy: PolicyLike | None, draws: npt.ArrayLike | None, rng: RngLike, threads: int | None
    ) -> Ended:
        self.operator(draws, rng, threads)  # which refuses draws
        return ended_mdp(self.model, policy)

    @property
    def is_mean(self) -> bool:  # noqa: D102
        return True

    def mean_mdp(self) -> MDP:  # noqa: D102
        return self.model

    def explain_state(self, value: FloatArray, state: int, chosen: int, q: FloatArray | None = None) -> Explanation:  # noqa: D102
        if q is None:
            pairs = np.zeros(self.model.admissible.shape, dtype=np.bool_)
            pairs[state] = self.model.admissible[state]
            q = self.q_values(value, pairs=pairs)[state]
        return explain_known(self.model, state, chosen, q)
