"""Options of the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypedDict

from .._support.checks import positive, whole_number
from ..errors import ParameterError

__all__ = ["SolverKeywords", "SolverOptions"]

CAP = {"newton": 1_000, "value_iteration": 1_000_000}
DEVICES = ("cpu", "gpu")


class SolverKeywords(TypedDict, total=False):
    """The fields of :class:`SolverOptions` that solvers take as keywords, next to ``tol``."""

    method: str
    sweeps: int | None
    max_iterations: int | None
    device: str


@dataclass(frozen=True)
class SolverOptions:
    """How to solve; every solver takes one as ``options``, or the same names as keywords.

    tol : bound on the error of every value. By default ten digits of the largest one.
    method : ``"newton"`` (policy iteration that stops on certified bounds) or ``"value_iteration"``.
    sweeps : exactly so many sweeps of value iteration, as the paper does, instead of a tolerance.
    max_iterations : the most backups. A solver that stops there warns. By default 1,000 for Newton, 1,000,000 for value
        iteration.
    device : ``"cpu"``, or ``"gpu"`` for an NVIDIA GPU (``pip install "prudent[gpu]"``): the model goes there once, all
        iterations stay there, and the certificate is the same. Worth it from some ten thousand states on.

    >>> import prudent as pr
    >>> quick = SolverOptions(tol=1e-3)
    >>> pr.solve(pr.MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5), options=quick).policy
    array([1])
    """

    tol: float | None = None
    method: str = "newton"
    sweeps: int | None = None
    max_iterations: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.tol is not None:
            positive(self.tol, "tol")
        if self.method not in CAP:
            raise ParameterError(f"method must be one of {', '.join(map(repr, CAP))}, got {self.method!r}")
        if self.device not in DEVICES:
            raise ParameterError(f"device must be one of {', '.join(map(repr, DEVICES))}, got {self.device!r}")
        if self.sweeps is not None:
            whole_number(self.sweeps, "sweeps")
        if self.max_iterations is not None:
            whole_number(self.max_iterations, "max_iterations")
        if self.sweeps is not None and (self.tol is not None or self.max_iterations is not None):
            other = "tol" if self.tol is not None else "max_iterations"
            raise ParameterError(f"give sweeps or {other}, not both: sweeps are done whatever the error is")

    @classmethod
    def chosen(cls, options: Self | None, tol: float | None, keywords: SolverKeywords) -> Self:
        """Return ``options``, or those that the keywords say; to give both is an error."""
        if options is None:
            return cls(tol, **keywords)
        if not isinstance(options, cls):
            raise ParameterError(f"options must be SolverOptions, got {options!r}")
        if tol is not None or keywords:
            named = "tol" if tol is not None else next(iter(keywords))
            raise ParameterError(f"give either options or {named}, and not both")
        return options

    @property
    def cap(self) -> int:
        """The most backups."""
        return CAP[self.method] if self.max_iterations is None else self.max_iterations
