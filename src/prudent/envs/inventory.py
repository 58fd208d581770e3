"""Inventory control with unknown demand: known dynamics driven by one unknown distribution, the paper's own example.

Each period starts with a stock level; an order fills it up at once, as far as ``capacity`` allows (what does not fit is
neither delivered nor paid); then demand d arrives. With y the stock after the order:

    lost sales   next stock (y - d)+
                 reward price min(y, d) - cost order - holding stock' - penalty (d - y)+
    backlog      next stock max(y - d, -backlog)
                 reward price (y - stock') - cost order - holding stock'+ - penalty stock'-

Backlogged units are paid when they are promised; demand beyond the largest backlog is lost.
"""

from __future__ import annotations

import numpy as np

from .._support.checks import FloatArray, distribution, finite_number, flag, whole_number
from .._support.memory import require_memory
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..types import ArrayLike
from .problem import Problem


def inventory(
    demand: ArrayLike | None = None,
    *,
    capacity: int = 10,
    max_order: int = 5,
    backlog: int = 0,
    price: float = 4.0,
    cost: float = 2.0,
    holding: float = 0.1,
    penalty: float = 0.0,
    discount: float = 0.95,
    censored: bool = False,
    start: int = 0,
) -> Problem:
    """Return inventory control with unknown demand: its model, and the true distribution of demand.

    Stock levels -backlog, ..., `capacity` are the states in that order; action a orders a units.

    Parameters
    ----------
    demand : array_like, optional
        True probabilities [K] of demand 0, 1, ..., K-1. The default is Binomial(8, 0.4).
    capacity : int, default=10
        Largest stock.
    max_order : int, default=5
        Largest order.
    backlog : int, default=0
        Largest number of units that may be owed; with 0 sales are lost.
    price, cost, holding, penalty : float
        Price of a unit sold (4), cost of a unit ordered (2), cost of a unit in stock (0.1), and penalty for a unit
        lost or owed (0).
    discount : float, default=0.95
        Discount factor in [0, 1).
    censored : bool, default=False
        Whether only the new stock level is seen. A stock-out then shows that demand was at least the stock, and its
        count is split over the demands that explain it (see `prudent.UncertainMDP.count`).
    start : int, default=0
        First stock level.

    Returns
    -------
    Problem
        Model and true probabilities.

    Raises
    ------
    ParameterError
        If an argument is out of range.

    Examples
    --------
    >>> model, theta = inventory([0.2, 0.5, 0.3], capacity=3, max_order=2)
    >>> model
    UncertainMDP(4 states, 3 actions, 1 source, 3 outcomes, discount 0.95)
    >>> model.next_state[1, 1], model.reward[1, 1]              # two units are there to sell
    (array([2, 1, 0], dtype=int32), array([-2.2, 1.9, 6. ]))
    """
    capacity = whole_number(capacity, "capacity", memory=256.0)
    max_order = whole_number(max_order, "max_order", memory=256.0)
    backlog = whole_number(backlog, "backlog", 0, memory=256.0)
    chances = _binomial(8, 0.4) if demand is None else distribution(demand, "demand", ndim=1, error=ParameterError)
    amounts = {"price": price, "cost": cost, "holding": holding, "penalty": penalty}
    price, cost, holding, penalty = (finite_number(value, name) for name, value in amounts.items())

    def period(stock: int, order: int, wanted: int) -> tuple[int, float]:
        filled = min(stock + order, capacity)
        left = max(filled - wanted, -backlog)
        sold = filled - left
        lost = wanted - sold
        earned = price * sold - cost * (filled - stock) - holding * max(left, 0)
        return left, earned - penalty * (lost if backlog == 0 else max(-left, 0))

    cells = (capacity + backlog + 1.0) * (max_order + 1.0) * chances.size
    require_memory(32.0 * cells, "capacity", capacity)
    model = UncertainMDP.from_dynamics(
        period,
        states=range(-backlog, capacity + 1),
        actions=range(max_order + 1),
        noise=range(chances.size),
        discount=discount,
    )
    first = model.state_labels.index(start, "start")
    return Problem(model, chances[np.newaxis], start=first, observed=not flag(censored, "censored"))


def _binomial(n: int, p: float) -> FloatArray:
    from scipy.stats import binom  # takes a while to load

    chances = binom.pmf(np.arange(n + 1), n, p)
    return chances / chances.sum()
