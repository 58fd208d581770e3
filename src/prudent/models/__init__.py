"""Tabular models: ``MDP``, whose probabilities are known, and ``UncertainMDP``, whose probabilities are not.

A known model has transition probabilities P(s' | s, a), mean rewards r(s, a) and a discount, as in Section 2
of the paper. A step may also end the process, with probability ``termination[s, a]``: the value after it is
zero, and P[s, a].sum() + termination[s, a] = 1.

An uncertain model separates what is known from what is not. B sources each draw one of up to K outcomes from
a categorical distribution that nobody knows; what an outcome leads to is known:

    outcome k ~ Categorical(theta[source[s, a]]),   next state next_state[s, a, k],   reward reward[s, a, k].

The paper's direct parametrisation has one source for each pair (s, a), and the next state itself is the
outcome; its Frozen Lake has three sources. Beliefs about theta are Dirichlet counts [B, K];
``UncertainMDP.count`` makes them from a log of transitions.

Letters: S states, A actions, K outcomes, B sources, M rows of a log.
"""

from __future__ import annotations

from .mdp import MDP
from .uncertain import UncertainMDP

__all__ = ["MDP", "UncertainMDP"]
