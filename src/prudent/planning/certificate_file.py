"""Certificates as files: what a solution claims about a model, for a checker that shares no code with the solver.

A model file and a certificate are JSON with numbers as the shortest texts that give the same doubles again. The formats
are on the page ``docs/reference/files.md``; ``prudent/certificates/checker.py`` reads them.

The claim is that V is within e of the optimal values: T(V + e) <= V + e and T_pi(V - e) >= V - e. With
r = max |TV - V| both hold for e = r / (1 - gamma). The error of the rows that the solver computed adds at most
``error_bound``, so e is the sum of the two.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from .._support.output import write
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..risk import CVaR
from ..types import FloatArray, PathLike
from .base import PlanningProblem


class Certifiable:
    """Base class of solutions, which writes their certificates."""

    value: FloatArray
    policy: npt.NDArray[Any]
    error_bound: float
    problem: PlanningProblem | None

    def certificate(self, path: PathLike, *, model: PathLike | None = None) -> None:
        """Write a certificate, which a program that shares no code with the solver can check.

        The certificate holds the values, their error, the policy and a hash of the model. ``prudent verify MODEL
        CERTIFICATE`` and the file ``prudent/certificates/checker.py`` check it.

        Parameters
        ----------
        path : path-like
            The certificate, a JSON file.
        model : path-like, optional
            Also write the model, with the counts of its posterior, as a JSON file.

        Raises
        ------
        ParameterError
            If the solution is not one of a known model, or of CVaR under Dirichlet counts, with a discount below 1 and
            one action for each state.
        """
        if self.problem is None or self.value.ndim != 1 or self.policy.ndim != 1 or not self._is_plain():
            message = (
                "no certificate can be written: it is for values of the discounted return without a horizon, for a "
                "policy with one action in each state"
            )
            raise ParameterError(message, code="no-certificate")
        alpha, content, q = _level(self.problem), model_file(self.problem), self._backup()
        best = float(np.abs(q.max(axis=1) - self.value).max())
        own = float(np.abs(np.take_along_axis(q, self.policy[:, None], axis=1)[:, 0] - self.value).max())
        optimal = best <= max(2.0 * self.error_bound, own)
        residual = max(best, own) if optimal else own
        record = {
            "format": "prudent-certificate",
            "version": 1,
            "claim": "optimal" if optimal else "policy",
            "model": hashlib.sha256(content).hexdigest(),
            "alpha": alpha,
            "error": residual / (1.0 - self.problem.model.discount) + self.error_bound,
            "value": self.value,
            "policy": self.policy,
        }
        if model is not None:
            write(Path(model), content)
        write(Path(path), _json(record))

    def _backup(self) -> FloatArray:
        """Return the Q-values [S, A]."""
        return cast(FloatArray, cast(Any, self).q)

    def _is_plain(self) -> bool:
        """Whether the values are those of the discounted return, without bounds on costs or distance."""
        given = ("objective", "bias", "constraint", "allowed")
        return all(getattr(self, name, None) is None for name in given)


def model_file(problem: PlanningProblem) -> bytes:
    """Return the content of the model file of a problem."""
    model = problem.model
    model.require_unit_durations("certificates")
    pairs = np.flatnonzero(model.admissible)
    record: dict[str, Any] = {
        "format": "prudent-model",
        "version": 1,
        "discount": model.discount,
        "n_states": model.n_states,
        "n_actions": model.n_actions,
        "pairs": pairs,
    }
    if isinstance(model, UncertainMDP):
        entries = model.entries
        at, first = entries.of_pairs(pairs)
        next_state = entries.next_state[at]
        counts = entries.pack(problem.posterior.counts)  # type: ignore[attr-defined]
        record |= {"begin": entries.begin, "counts": counts, "source": entries.source[pairs]}
        record |= {"reward": entries.reward[at]}
    else:
        rows = model.transition[pairs]
        first, next_state = rows.indptr.astype(np.int64), rows.indices
        record |= {"probability": rows.data, "pair_reward": model.reward.reshape(-1)[pairs]}
    record |= {"first": first, "next_state": np.where(next_state < 0, -1, next_state)}
    return _json(record)


def _level(problem: PlanningProblem) -> float | None:
    """Return the risk level of a problem whose solutions a checker can check; None for a known model."""
    reason = None
    if not 0.0 <= problem.model.discount < 1.0:
        reason = "the discount must be below 1"
    elif isinstance(problem.model, UncertainMDP):
        risk = getattr(problem, "risk", None)
        if getattr(problem, "posterior", None) is None or getattr(problem, "reward_posterior", None) is not None:
            reason = "it needs Dirichlet counts and known rewards"
        elif not isinstance(risk, CVaR):
            reason = "the risk measure must be CVaR"
        else:
            return float(risk.alpha)
    if reason is not None:
        raise ParameterError(f"no certificate can be written: {reason}", code="no-certificate")
    return None


def _json(record: dict[str, Any]) -> bytes:
    lists = {name: cell.tolist() if isinstance(cell, np.ndarray) else cell for name, cell in record.items()}
    return (json.dumps(lists, sort_keys=True, allow_nan=False, separators=(",", ":")) + "\n").encode()
