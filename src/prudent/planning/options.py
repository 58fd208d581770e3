"""Settings of the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypedDict

from .._support.checks import instance_of, one_of, positive, whole_number
from ..errors import ParameterError

MAX_BACKUPS = {"newton": 1_000, "value_iteration": 1_000_000}
DEVICES = ("cpu", "gpu")


class SolverKeywords(TypedDict, total=False):
    """The fields of ``SolverOptions`` that solvers take as keywords, next to ``tol``."""

    method: str
    sweeps: int | None
    max_iterations: int | None
    device: str


@dataclass(frozen=True)
class SolverOptions:
    """Settings of the iterative solvers.

    Every solver takes one as ``options``, or the same names as keywords.

    Parameters
    ----------
    tol : float, optional
        Bound on the error of every value. By default ten digits of the largest one.
    method : {"newton", "value_iteration"}, default="newton"
        Policy iteration that stops on certified bounds, or value iteration.
    sweeps : int, optional
        Exact number of sweeps of value iteration, as in the paper, instead of a tolerance.
    max_iterations : int, optional
        Maximum number of backups; reaching it issues a ConvergenceWarning. By default 1,000 for Newton and 1,000,000
        for value iteration.
    device : {"cpu", "gpu"}, default="cpu"
        ``"gpu"`` is an NVIDIA GPU (``pip install "prudent[gpu]"``): the model is copied there once, all iterations
        stay there, and the certificate is the same. Worth it from about ten thousand states.

    Raises
    ------
    ParameterError
        If a setting is invalid, or ``sweeps`` comes with ``tol`` or ``max_iterations``.

    Examples
    --------
    >>> import prudent as pr
    >>> quick = pr.planning.SolverOptions(tol=1e-3)
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
        one_of(self.method, "method", MAX_BACKUPS)
        one_of(self.device, "device", DEVICES)
        for name in ("sweeps", "max_iterations"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name)
        if self.sweeps is not None and (self.tol is not None or self.max_iterations is not None):
            other = "tol" if self.tol is not None else "max_iterations"
            message = f"sweeps cannot be combined with {other}: the sweeps are done whatever the error is"
            raise ParameterError(message, code="conflicting-arguments", argument=other)

    @classmethod
    def chosen(cls, options: Self | None, tol: float | None, keywords: SolverKeywords) -> Self:
        """Return ``options``, or the settings of the keywords.

        Parameters
        ----------
        options : SolverOptions or None
            Settings as one object.
        tol : float or None
            Tolerance given as a keyword.
        keywords : dict
            The other settings given as keywords.

        Returns
        -------
        SolverOptions
            The settings to use.

        Raises
        ------
        ParameterError
            If both are given.
        """
        if options is None:
            return cls(tol, **keywords)
        instance_of(options, "options", cls)
        if tol is not None or keywords:
            name = "tol" if tol is not None else next(iter(keywords))
            raise ParameterError(f"{name} cannot be combined with options", code="conflicting-arguments", argument=name)
        return options

    @property
    def cap(self) -> int:
        """Maximum number of backups."""
        return MAX_BACKUPS[self.method] if self.max_iterations is None else self.max_iterations
