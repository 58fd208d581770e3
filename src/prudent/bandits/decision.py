"""What a bandit decided, and with what probability: in one context or in many, between arms or items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import time
from typing import Any

import numpy as np

from .._support.checks import FloatArray, generator, whole_number
from ..errors import ParameterError
from ..types import RngLike
from .law.base import Chances, Law
from .law.normal import NormalLaw, ScoreRule

Arm = str | int


class Decision:
    """What a bandit decided in one context, in many, or between items.

    Made by ``select`` of ``LinearBandit`` and ``SharedLinearBandit``. Of one context, arrays have no axis T.
    Probabilities are exact (except for items with joint draws) and computed when they are read.

    Parameters
    ----------
    arms : tuple of str or int
        The k eligible arms or candidates.
    places : int or ndarray of int
        Positions of the chosen arms: one, [T] of many contexts, or [top] of a slate.
    score : float or ndarray of float or callable
        Scores of the chosen arms, or a function that computes them.
    law : Law or tuple
        Law of the scores, or moments and rule of a normal law.
    context : ndarray of float, [D] or [T, D]
        Context, or features of the chosen item.
    version : tuple of int
        Numbers of decisions and of rewards that the bandit had seen.
    with_chances : bool, default=True
        Whether probabilities are given.
    candidates : ndarray of float, [k, D], optional
        Features of all candidates, if items were chosen.
    propensity : float, optional
        Probability with which the arm was chosen, if it is known already.

    Attributes
    ----------
    arms : tuple of str or int
        The k eligible arms or candidates.
    context : ndarray of float, [D] or [T, D]
        Context of the decision, or features of the chosen item: what ``update`` takes with the reward.
    candidates : ndarray of float, [k, D] or None
        Features of all candidates, if items were chosen.
    version : tuple of int
        Numbers of decisions and of rewards that the bandit had seen.
    time : float
        Seconds since 1970 (UTC).
    id : str or None
        Identifier of the decision, which a ``prudent.Journal`` gives.
    ids : tuple of str or None
        Identifiers of the places of a slate, which a journal gives.

    See Also
    --------
    LinearBandit.select, SharedLinearBandit.select

    Examples
    --------
    >>> import prudent as pr
    >>> decision = pr.LinearBandit(2, dim=1, noise_sd=1.0, intercept=False, rng=1).select([1.0])
    >>> decision.arms, decision.mean, decision.sd
    ((0, 1), array([0., 0.]), array([1., 1.]))
    >>> round(decision.propensity, 12)
    0.5
    >>> pr.LinearBandit(2, dim=1, rng=1).select([[1.0], [2.0], [3.0]]).propensity
    array([0.5, 0.5, 0.5])
    """

    __slots__ = (
        "_law_or_parts",
        "_places",
        "_propensity",
        "_score",
        "_with_chances",
        "arms",
        "candidates",
        "context",
        "id",
        "ids",
        "time",
        "version",
    )

    def __init__(
        self,
        arms: tuple[Arm, ...],
        places: Any,
        score: Any,
        law: Law | tuple[FloatArray, ScoreRule],
        context: FloatArray,
        version: tuple[int, int],
        with_chances: bool = True,
        candidates: FloatArray | None = None,
        propensity: float | None = None,
    ) -> None:
        self.arms = arms
        self._places = places  # int; [T] of many contexts; [top] of a slate
        self._score = score  # of the places: a float, an array, or a function that computes it
        self._law_or_parts = law  # parts of a NormalLaw, which is made when it is read: decisions take microseconds
        self.context = context
        self.version = version
        self._with_chances = with_chances
        self._propensity: Any = propensity
        self.candidates = candidates
        self.time = time()
        self.id: str | None = None
        self.ids: tuple[str, ...] | None = None

    @classmethod
    def recorded(
        cls,
        arms: tuple[Arm, ...],
        places: Sequence[int],
        scores: Sequence[float | None],
        propensity: float | None,
        like: Decision,
    ) -> Decision:
        """Return a decision that was read from a record; its law is not known any more.

        Parameters
        ----------
        arms : tuple of str or int
            The k eligible arms or candidates.
        places : sequence of int
            Positions of the chosen arms.
        scores : sequence of float
            Their scores.
        propensity : float or None
            Probability with which the first was chosen.
        like : Decision
            A decision with the same context or candidates.

        Returns
        -------
        Decision
            ``mean``, ``sd`` and ``propensities`` raise an error.
        """
        items = like.candidates is not None
        context = like.context if like.candidates is None else like.candidates[places[0]]
        place = np.array(places) if items else places[0]
        score = np.array(scores, dtype=np.float64) if items else scores[0]
        law: Any = None
        return cls(arms, place, score, law, context, like.version, propensity is not None, like.candidates, propensity)

    @property
    def _law(self) -> Law:
        """Law of the scores."""
        law = self._law_or_parts
        if isinstance(law, tuple):
            law = self._law_or_parts = NormalLaw(*law)
        elif law is None:
            message = "this decision was read from a record: see Journal.explain for what was known when it was taken"
            raise ParameterError(message, code="not-recorded")
        return law

    @property
    def _many(self) -> bool:
        return self.context.ndim == 2

    @property
    def _place(self) -> int:
        """Position of the chosen arm of one decision."""
        return self._places if self.candidates is None else int(self._places[0])

    @property
    def arm(self) -> Any:
        """Chosen arm; names [T] of many contexts."""
        places = self._places
        if type(places) is int:
            return self.arms[places]
        return name_array(self.arms)[self._places] if self._many else self.arms[self._place]

    @property
    def score(self) -> Any:
        """Score of ``arm``; scores [T] of many contexts."""
        if callable(self._score):
            self._score = self._score()
        return self._score if self.candidates is None else float(self._score[0])

    @property
    def slate(self) -> tuple[Arm, ...]:
        """Chosen arms of one decision, best score first."""
        if type(self._places) is int:
            return (self.arms[self._places],)
        return tuple(self.arms[place] for place in self._slate())

    @property
    def scores(self) -> FloatArray:
        """Scores [top] of the slate."""
        return np.atleast_1d(self.score) if self.candidates is None else np.asarray(self._score)

    @property
    def chosen(self) -> FloatArray:
        """Contexts or features [top, D] of the slate."""
        return np.atleast_2d(self.context) if self.candidates is None else self.candidates[self._places]

    def _slate(self) -> Sequence[int]:
        if self._many:
            message = "a slate is that of one decision, and this is one of many contexts"
            raise ParameterError(message, code="many-contexts")
        return [self._places] if self.candidates is None else self._places.tolist()

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the scores s'theta of the eligible arms, [k] or [T, k]."""
        return self._law.mean

    @property
    def sd(self) -> FloatArray:
        """Posterior sds of the scores s'theta, [k] or [T, k]; infinite while the noise is unknown."""
        return self._law.sd

    @property
    def propensity(self) -> Any:
        """Probability with which ``arm`` was chosen (came first); [T] of many contexts; None if left out."""
        if self._propensity is None and self._with_chances:
            law: Any = self._law
            self._propensity = law.chance_rows(self._places) if self._many else law.chance(self._place)
        return self._propensity

    @property
    def propensity_error(self) -> float | None:
        """Standard error of ``propensity`` of one decision: 0 if it is exact."""
        return self._law.error(self._place) if self._with_chances else None

    @property
    def propensities(self) -> FloatArray | None:
        """Probabilities of all eligible arms, [k] or [T, k], which sum to one; None if left out."""
        return self._law.chances() if self._with_chances else None

    def inclusion(self, draws: int = 1000, rng: RngLike = 0) -> Chances:
        """Return the probability of every candidate to be on a slate of this length.

        It is exact for independent draws, unless candidates times the square of the length exceed a million. Else it is
        sampled; the random stream of the bandit is not used.

        Parameters
        ----------
        draws : int, default=1000
            Number of simulated decisions, if it is sampled.
        rng : RngLike, default=0
            Seed or Generator.

        Returns
        -------
        Chances
            Probabilities [k] and their standard errors [k], 0 if they are exact.

        Raises
        ------
        ParameterError
            If ``select`` was called with ``propensity=False``, or in many contexts.

        Examples
        --------
        >>> from prudent.bandits import SharedLinearBandit
        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0, rng=1)
        >>> chance, error = bandit.select([[1.0], [1.0], [1.0]], top=2).inclusion()
        >>> chance.round(12).tolist(), error.tolist()
        ([0.666666666667, 0.666666666667, 0.666666666667], [0.0, 0.0, 0.0])
        """
        top, size, draws = self._chances_of_slate(draws)
        if top == size:
            return Chances(np.ones(size), np.zeros(size))
        return self._law.included(top, draws, generator(rng))

    def placement(self, draws: int = 1000, rng: RngLike = 0) -> Chances:
        """Return the probability of every candidate to stand at each place of a slate of this length.

        It is exact for independent draws, else sampled. The first row is ``propensities``; the sum of the rows is
        ``inclusion``.

        Parameters
        ----------
        draws : int, default=1000
            Number of simulated decisions, if it is sampled.
        rng : RngLike, default=0
            Seed or Generator.

        Returns
        -------
        Chances
            Probabilities [top, k] and their standard errors [top, k], 0 if they are exact.

        Raises
        ------
        ParameterError
            If ``select`` was called with ``propensity=False``, or in many contexts.

        Examples
        --------
        >>> from prudent.bandits import SharedLinearBandit
        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0, rng=1)
        >>> bandit.select([[1.0], [1.0]], top=2).placement().chance.round(12)
        array([[0.5, 0.5],
               [0.5, 0.5]])
        """
        top, _, draws = self._chances_of_slate(draws)
        return self._law.placed(top, draws, generator(rng))

    @property
    def slate_propensity(self) -> float | None:
        """Probability of the slate in this order, exact; None if left out. Only for independent draws."""
        return self._law.slate_chance(np.asarray(self._slate()), True) if self._with_chances else None

    @property
    def set_propensity(self) -> float | None:
        """Probability of the slate in any order, exact; None if left out. Only for independent draws."""
        return self._law.slate_chance(np.asarray(self._slate()), False) if self._with_chances else None

    def _chances_of_slate(self, draws: int) -> tuple[int, int, int]:
        """Return the length of the slate, the number of candidates, and the checked number of simulated decisions."""
        if not self._with_chances:
            raise ParameterError("select left probabilities out (propensity=False)", code="no-propensity")
        return len(self._slate()), len(self.arms), whole_number(draws, "draws", memory=16.0)

    def record(self) -> list[dict[str, Any]]:
        """Return what a log needs to repeat the decision: one dict for each place of the slate.

        The first holds ``arms`` and, as ``context``, the context or the features [k, D] of all candidates; the others
        the features of their own item.

        Returns
        -------
        list of dict
            With the keys ``place``, ``arm``, ``arms``, ``context`` and ``score``.

        Examples
        --------
        >>> import prudent as pr
        >>> [sorted(entry) for entry in pr.LinearBandit(["a", "b"], dim=1, rng=1).select([1.0]).record()]
        [['arm', 'arms', 'context', 'place', 'score']]
        """
        slate, rows, scores = self.slate, [self.context], [self.score]
        if self.candidates is not None:
            rows, scores = [self.candidates, *self.chosen[1:]], self.scores.tolist()
        # + 0.0: no minus zero, which not every store can hold
        return [
            {"place": i, "arm": arm, "arms": None if i else self.arms, "context": rows[i], "score": scores[i] + 0.0}
            for i, arm in enumerate(slate)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values, propensity included.

        Returns
        -------
        dict
            With the keys ``id``, ``time``, ``context``, ``arms``, ``arm``, ``propensity``, ``score`` and ``version``;
            of items also ``ids``, ``slate``, ``scores``, ``propensity_error`` and ``candidates``.

        Examples
        --------
        >>> import prudent as pr
        >>> record = pr.LinearBandit(["a", "b"], dim=1, rng=1).select([1.0]).to_dict()
        >>> list(record)
        ['id', 'time', 'context', 'arms', 'arm', 'propensity', 'score', 'version']
        >>> record["context"], record["arms"], record["version"]
        ([1.0], ['a', 'b'], {'decisions': 0, 'rewards': 0})
        """
        values: dict[str, Any] = {
            "id": self.id,
            "time": self.time,
            "context": self.context,
            "arms": list(self.arms),
            "arm": self.arm,
            "propensity": self.propensity,
            "score": self.score,
            "version": dict(zip(("decisions", "rewards"), self.version, strict=True)),
        }
        if self.candidates is not None:
            values |= {
                "ids": None if self.ids is None else list(self.ids),
                "slate": list(self.slate),
                "scores": self.scores,
                "propensity_error": self.propensity_error,
                "candidates": self.candidates,
            }
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    def to_json(self) -> str:
        """Return ``to_dict`` as one line of JSON.

        Returns
        -------
        str
            One line.

        Examples
        --------
        >>> import json
        >>> import prudent as pr
        >>> json.loads(pr.LinearBandit(2, dim=1, rng=1).select([0.5]).to_json())["context"]
        [0.5]
        """
        return json.dumps(self.to_dict(), allow_nan=False)

    def __repr__(self) -> str:
        if self._many:
            return f"Decision({len(self.context)} contexts, arms={self.arms})"
        if self.candidates is None:
            return f"Decision(arm={self.arm!r}, score={self.score:.6g})"
        rest = f", {len(self._places)} chosen" if len(self._places) > 1 else ""
        return f"Decision(arm={self.arm!r}, score={self.score:.6g}, {len(self.arms)} candidates{rest})"


def name_array(names: Sequence[Arm]) -> np.ndarray[Any, Any]:
    """Return the names as an array of integers or of strings; of objects if both occur."""
    if all(isinstance(name, int) for name in names):
        return np.array(names)
    kind = None if all(isinstance(name, str) for name in names) else object
    return np.array(names, dtype=kind)
