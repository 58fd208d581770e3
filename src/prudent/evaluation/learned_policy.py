"""A policy that was learned from a log: linear scores or a small tree, in words, in a table and in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._support.checks import finite_array, require_shape
from .._support.state import Arrays, Load, restore, write_state
from ..data.context_encoder import ContextEncoder
from ..data.features import read_named
from ..data.transformers import encoder_of
from ..display.figures import off_policy as figures
from ..display.words import visible
from ..errors import ParameterError
from ..types import ArmLike, BoolArray, ContextLike, FloatArray, PathLike
from .estimates import OffPolicyEstimates
from .policy_search import Linear, Rule, Tree, choose
from .tables import EstimateTable

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_KIND, _VERSION = "LearnedPolicy", 1
_SHOWN = 4  # features of a linear score


@dataclass(frozen=True, eq=False, repr=False)
class LearnedPolicy(EstimateTable):
    """Policy that was learned from a log: the result of ``learn_policy``.

    It is called with contexts [T, D] and returns arms [T]; ``off_policy`` takes it as a target.

    Attributes
    ----------
    kind : {"arm", "split", "tree", "linear"}
        What it is: one arm, a tree of depth 1 or 2, or linear scores.
    arms : tuple
        Names of the arms.
    features : tuple of str
        Names of the features of a context.
    rule : Tree or Linear
        What decides.
    value, low, high : float
        Honest doubly robust value, from rows that the policies were not learned from, with its interval.
    lower_bound : float
        Lower confidence bound that was maximised, in the rows that it was learned from: it is optimistic.
    logged : float
        Mean reward of the log.
    confidence : float
        Confidence of the bound and of the intervals.
    n : int
        Number of rows.
    table : DataFrame
        A row for each kind, with the honest estimate, low and high, the share of folds in which it was chosen, and
        ``learned``, the row of the procedure that chooses a kind.
    encoder : ContextEncoder or None
        What makes numbers of contexts, if the log was read with ``Features``.
    estimates : OffPolicyEstimates or None
        All honest estimates; None after ``load``.

    See Also
    --------
    learn_policy : Learn a policy.

    Examples
    --------
    >>> import prudent as pr
    >>> log = [([x / 9], arm, float(arm == ("b" if x > 4 else "a")), 0.5) for x in range(10) for arm in "ab" * 60]
    >>> policy = pr.learn_policy(log)
    >>> policy([[0.2], [0.9]]).tolist(), policy.act([0.9]), round(policy.value, 2)
    (['a', 'b'], 'b', 1.0)
    """

    load = Load()

    kind: str
    arms: tuple[ArmLike, ...]
    features: tuple[str, ...]
    rule: Rule
    value: float
    low: float
    high: float
    lower_bound: float
    logged: float
    confidence: float
    n: int
    table: pandas.DataFrame
    encoder: ContextEncoder | None = None
    estimates: OffPolicyEstimates | None = field(default=None)

    # -- decisions -----------------------------------------------------------------------------------------

    def __call__(self, contexts: ContextLike) -> Any:
        """Return the arms [T] chosen in contexts [T, D], as an array."""
        return self._names()[choose(self.rule, self._points(contexts), None)]

    def act(self, context: ContextLike, arms: Iterable[ArmLike] | None = None) -> ArmLike:
        """Return the arm that is chosen in one context.

        Parameters
        ----------
        context : ContextLike
            Context [D]: numbers, or a dict by the names of the features.
        arms : iterable of str or int, optional
            The eligible arms. The default is all arms.

        Returns
        -------
        str or int
            Name of the arm.

        Raises
        ------
        DataError
            If the context has another shape or is not finite.
        ParameterError
            If an arm is unknown.
        """
        points = self._points(context)
        require_shape(points, "context", (1, len(self.features)), "[D]")
        return self.arms[int(choose(self.rule, points, self._eligible(arms))[0])]

    def propensities(self, context: ContextLike, arms: Iterable[ArmLike] | None = None) -> FloatArray:
        """Return the probabilities of the eligible arms: 1 for the arm that is chosen.

        Parameters
        ----------
        context : ContextLike
            Contexts [T, D], or one context [D].
        arms : iterable of str or int, optional
            The k eligible arms. The default is all arms.

        Returns
        -------
        ndarray of float, [k] or [T, k]
            Probabilities.

        Raises
        ------
        DataError
            If a context has another shape or is not finite.
        ParameterError
            If an arm is unknown.
        """
        points, mask = self._points(context), self._eligible(arms)
        chances = np.zeros((len(points), len(self.arms)))
        chances[np.arange(len(points)), choose(self.rule, points, mask)] = 1.0
        if arms is not None:
            chances = chances[:, [self.arms.index(arm) for arm in arms]]
        alone = isinstance(context, Mapping) or np.ndim(context) == 1  # type: ignore[arg-type]
        return chances[0] if alone else chances

    def _names(self) -> Any:
        kind = object if len({type(arm) for arm in self.arms}) > 1 else None
        return np.array(self.arms, dtype=kind)

    def _eligible(self, arms: Iterable[ArmLike] | None) -> BoolArray | None:
        if arms is None:
            return None
        wanted = list(arms)
        for arm in wanted:
            if arm not in self.arms:
                message = f"arms has {arm!r}, which is not one of the arms {list(self.arms)[:8]}"
                raise ParameterError(message, code="unknown-arm", argument="arms", arm=arm)
        if not wanted:
            raise ParameterError("arms is empty: no arm is eligible", code="empty", argument="arms")
        return np.isin(np.arange(len(self.arms)), [self.arms.index(arm) for arm in wanted])

    def _points(self, contexts: Any) -> FloatArray:
        """Return contexts [T, D] as numbers."""
        points: Any = None
        if self.encoder is not None:
            points = self.encoder.encode([contexts] if isinstance(contexts, Mapping) else contexts)
        if points is None:
            named = read_named(contexts, self.features, "context")
            points = np.atleast_2d(finite_array(contexts, "context") if named is None else named.values)
        require_shape(points, "context", (len(points), len(self.features)), "[T, D]")
        return np.asarray(points)

    # -- words, tables, files ------------------------------------------------------------------------------

    def rules(self) -> list[str]:
        """Return the policy in words: a line for each leaf, or for the score of each arm.

        Returns
        -------
        list of str
            Lines.

        Examples
        --------
        >>> import prudent as pr
        >>> log = [([x / 9], arm, float(arm == ("b" if x > 4 else "a")), 0.5) for x in range(10) for arm in "ab" * 60]
        >>> pr.learn_policy(log, kinds=["split"]).rules()
        ['x0 <= 0.4444: a', 'x0 > 0.4444: b']
        """
        if isinstance(self.rule, Linear):
            return [self._score(a) for a in range(len(self.arms))]
        tree, lines = self.rule, []
        if tree.features[0] < 0:
            return [f"always: {self.arms[tree.ranks[0, 0]]}"]
        for side, sign in ((0, "<="), (1, ">")):
            first = f"{self.features[tree.features[0]]} {sign} {tree.thresholds[0]:.4g}"
            child = 1 + side
            if tree.features[child] < 0 or tree.ranks[2 * side, 0] == tree.ranks[2 * side + 1, 0]:
                lines.append(f"{first}: {self.arms[tree.ranks[2 * side, 0]]}")
                continue
            for leaf, word in ((0, "<="), (1, ">")):
                second = f"{self.features[tree.features[child]]} {word} {tree.thresholds[child]:.4g}"
                implied = tree.features[child] == tree.features[0] and word == sign  # the second is the narrower one
                rule = second if implied else f"{first} and {second}"
                lines.append(f"{rule}: {self.arms[tree.ranks[2 * side + leaf, 0]]}")
        return lines

    def _score(self, arm: int) -> str:
        assert isinstance(self.rule, Linear)
        weights = self.rule.coefficients[arm]
        order = np.argsort(-np.abs(weights[1:]), kind="stable")
        parts = [f"{weights[1 + j]:+.3g} {self.features[j]}" for j in order[:_SHOWN]]
        more = f" and {order.size - _SHOWN} more" if order.size > _SHOWN else ""
        return f"score of {self.arms[arm]}: {weights[0]:.3g} {' '.join(parts)}{more}"

    def __repr__(self) -> str:
        kind = {"arm": "one arm", "split": "a tree of depth 1", "tree": "a tree of depth 2", "linear": "linear scores"}
        shown = [f"  {visible(line)}" for line in self.rules()[:12]]
        return "\n".join(
            [
                f"Policy learned from {self.n:,} rows: {kind[self.kind]}",
                *shown,
                f"honest value from held-out folds: {self.value:.6g} [{self.low:.6g}, {self.high:.6g}] at "
                f"{self.confidence:g}; log itself: {self.logged:.6g}",
            ]
        )

    def plot(self) -> Figure:
        """Plot the honest values of all kinds of policies beside the mean reward of the log.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return figures.draw_estimates(self.table, self.logged, self.confidence).to_matplotlib()

    def save(self, path: PathLike) -> None:
        """Write the policy to a file, with its honest values; nothing in it can be executed.

        Parameters
        ----------
        path : path-like
            File to write; it appears whole or not at all.

        Raises
        ------
        StateFileError
            If what was written cannot be loaded.

        Examples
        --------
        >>> import tempfile
        >>> import prudent as pr
        >>> log = [([x / 9], arm, float(arm == ("b" if x > 4 else "a")), 0.5) for x in range(10) for arm in "ab" * 60]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pr.learn_policy(log).save(f"{folder}/policy.state")
        ...     pr.evaluation.LearnedPolicy.load(f"{folder}/policy.state").act([0.9])
        'b'
        """
        values, arrays = self.state()
        write_state(path, _KIND, _VERSION, values, arrays, self._restored)

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Return the policy that was saved in a file.

        Parameters
        ----------
        path : path-like
            File that ``save`` wrote.

        Returns
        -------
        LearnedPolicy
            The policy.

        Raises
        ------
        StateFileError
            If the file is damaged, or of another kind or version.
        """
        return restore(path, _KIND, _VERSION, cls._restored)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the values and arrays to save.

        Returns
        -------
        tuple of dict
            Values that JSON can hold, and arrays by name.
        """
        values: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("kind", "value", "low", "high", "lower_bound", "logged", "confidence", "n")
        }
        values |= {
            "arms": list(self.arms),
            "features": list(self.features),
            "kinds": list(map(str, self.table.index)),
            "columns": list(map(str, self.table.columns)),
            "encoder": None if self.encoder is None else self.encoder.to_dict(),
            "seen": None if self.encoder is None else self.encoder.seen(),
        }
        arrays: Arrays = {"table": self.table.to_numpy(np.float64)}
        if isinstance(self.rule, Linear):
            arrays["coefficients"] = self.rule.coefficients
        else:
            arrays |= {
                "split": self.rule.features.astype(np.int64),
                "thresholds": self.rule.thresholds,
                "ranks": self.rule.ranks,
            }
        return values, arrays

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the policy of a state; raise if it cannot be one."""
        import pandas

        size, dim = len(values["arms"]), len(values["features"])
        rule: Rule
        if values["kind"] == "linear":
            rule = Linear(arrays["coefficients"])
            if rule.coefficients.shape != (size, dim + 1) or not np.isfinite(rule.coefficients).all():
                raise ValueError("coefficients that are not those of the arms")
        else:
            rule = Tree(arrays["split"], arrays["thresholds"], arrays["ranks"])
            shapes = rule.features.shape == (3,) == rule.thresholds.shape and rule.ranks.shape == (4, size)
            if not shapes or not ((rule.features >= -1) & (rule.features < dim)).all():
                raise ValueError("a tree that is not one of these features")
            if not (np.sort(rule.ranks, axis=1) == np.arange(size)).all():
                raise ValueError("ranks that are not those of the arms")
        if values["kind"] not in ("arm", "split", "tree", "linear"):
            raise ValueError(f"kind is {values['kind']!r}")
        encoder = None if values["encoder"] is None else encoder_of(values["encoder"])
        if encoder is not None:
            encoder.resume(values["seen"] or {})
        index = pandas.Index(values["kinds"], name="kind")
        table = pandas.DataFrame(arrays["table"], columns=values["columns"], index=index)
        own = {name: float(values[name]) for name in ("value", "low", "high", "lower_bound", "logged", "confidence")}
        options: dict[str, Any] = own | {"n": int(values["n"]), "table": table, "encoder": encoder}
        return cls(values["kind"], tuple(values["arms"]), tuple(values["features"]), rule, **options)
