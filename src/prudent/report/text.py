"""What the report says in words: the order of the sections, and what the paper says about each figure.

The paper is Wang and Zhou, *Online Bayesian Risk-Averse Reinforcement Learning*. Its conclusions are told in our
words; verdicts on them are never typed in here, they come with the claims.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BANDS", "CITE_PAPER", "CITE_PRUDENT", "SECTIONS", "Section"]


class Section(NamedTuple):
    """A section of the report: the experiment, its heading, the setting, and what the paper says by figure name."""

    name: str
    heading: str
    setting: str
    says: dict[str, str]


SECTIONS = (
    Section(
        "bandit-four",
        "Bandit: four algorithms",
        "Ten arms, three features, linear rewards with unit noise. Plain BRPS-CMAB and Thompson sampling (TS-CMAB) "
        "beside their ν variants, which widen the sampling by the factor that the regret bounds ask for. Regret is on "
        "a logarithmic scale.",
        {
            "bandit-four": "The ν variants explore far too much: both lose clearly to plain BRPS-CMAB and TS-CMAB, in "
            "BR-regret and in conventional regret alike. The paper drops them from there on."
        },
    ),
    Section(
        "bandit-br",
        "Bandit: BR-regret by risk level",
        "BR-regret compares the chosen arm with the best by CVaR of the agent’s own posterior, at the level of the "
        "panel. Each panel has Thompson sampling and the agent that was made for this level.",
        {
            "bandit-br": "BRPS-CMAB has less BR-regret than Thompson sampling at all three levels: it aims at just "
            "that. The gap narrows as the level falls towards 0, where the two are the same algorithm."
        },
    ),
    Section(
        "bandit-conventional",
        "Bandit: conventional regret by risk level",
        "Regret against the arm that is truly best. Sampling with the posterior’s own sd is the paper’s setting; the "
        "other panels widen it, to see whether the order of the algorithms depends on it.",
        {
            "bandit-conventional": "At levels 0.5 and 0.8 BRPS-CMAB ends below Thompson sampling. At 0.9 it does best "
            "in the beginning, around step 50,000, and worst at the end, at step 200,000."
        },
    ),
    Section(
        "lake-regret",
        "Frozen Lake: regret",
        "A 4×4 lake with slippery ice, four holes and a goal. What is unknown: the slip, the chance p_h to climb out "
        "of a hole, and where the game restarts. An episode is ten steps; regret is exact in the true model.",
        {
            "lake-regret": "BRPS-RL at levels 0.5, 0.8 and 0.9 beats Thompson sampling for every p_h. The best of the "
            "four levels falls as holes become harmless: 0.99, 0.9, 0.8, 0.8 for p_h = 0.1, 0.2, 0.6, 0.8."
        },
    ),
    Section(
        "lake-long",
        "Frozen Lake: the long term",
        "The same agents for many more episodes.",
        {
            "lake-long": "Too high a level costs much regret in the long run, though it may pay in the short run, "
            "while data is scarce, even where exploring is safe."
        },
    ),
    Section(
        "computing-time",
        "Computing time",
        "Time for one replication on Frozen Lake, on one core. Machines differ, so compare the ratios.",
        {
            "computing-time": "The work grows with the number of posterior draws, about 1/(1 − α). Level 0.99 takes "
            "24 times as long as Thompson sampling and almost eight times as long as level 0.9, for little gain in "
            "regret."
        },
    ),
    Section(
        "optimal-policy",
        "The optimal policy",
        "Frozen Lake with known probabilities, solved to rounding error. Holes are blue, the goal is green.",
        {
            "optimal-policy": "A table of arrows gives the optimal action in every cell; the limit law below is "
            "studied under this policy."
        },
    ),
    Section(
        "limit-law",
        "The limit law",
        "N transitions under the optimal policy, a posterior for each transition row, Bayesian-risk values at level "
        "0.9, in state 10. “Sampled” takes CVaR over posterior draws as the paper does, “exact” has no sampling noise.",
        {
            "limit-law-density": "As N grows, √N (V_N − V*) tends to a normal law, whose mean and variance the theorem "
            "on weak convergence gives: the empirical density settles on the theoretical one.",
            "limit-law-qq": "The quantiles of 500 replications come to lie on the line of the theoretical ones.",
        },
    ),
    Section(
        "beyond",
        "Beyond the paper",
        "BR-regret of agents on Frozen Lake, which takes the exact Bayesian-risk operator, and the optimistic value "
        "iteration of the paper’s theory beside posterior sampling.",
        {
            "beyond-br-regret": "Nothing about this figure: the paper measures BR-regret in bandits only.",
            "beyond-optimism": "Optimistic value iteration has a regret bound; the paper does not run it.",
        },
    ),
)

BANDS = (
    "Lines are means over replications, bands their 95% confidence intervals by Student’s t. In each replication all "
    "agents meet the same random numbers."
)

CITE_PAPER = """@article{wang-zhou-online-brrl,
  title  = {Online Bayesian Risk-Averse Reinforcement Learning},
  author = {Wang, Yuhao and Zhou, Enlu}
}"""

CITE_PRUDENT = """@software{{prudent,
  title   = {{prudent: decisions that hedge against what the data has not yet taught}},
  author  = {{{{The prudent developers}}}},
  version = {{{version}}}
}}"""
