"""Risk of a sample of rewards: CVaR and other weights on sorted draws, the draw rule, order-statistic draws.

Rewards are risked, so the LEFT tail is bad. The risk level ``alpha`` lies in (-1, 1); 0 is risk-neutral.

**Both ways.** A positive level is caution, a negative one optimism: CVaR at -a is the mean of the best 1 - a. It is
minus CVaR at a of the negated draws, and every measure with a level is read so below zero.

**CVaR of draws.** With z_(1) <= ... <= z_(N) and m = N (1 - alpha), CVaR averages the m lowest draws:
floor(m) of them whole and the next one by its fraction. It is max over x of x - E[(x - Z)+] / (1 - alpha)
under the empirical distribution: the paper's Monte Carlo estimator of CVaR.

**Weights on sorted draws.** Mean, CVaR, VaR, worst case, their mixtures and every distortion are one linear
form sum_i w_i z_(i) with w >= 0 and sum w = 1. ``RiskMeasure`` keeps only the weights of the outermost
draws, up to the last one that counts: the lowest ones, or the highest if the level is negative.

**Mixtures of CVaRs.** A distortion g that is linear between 0 = u_0 < ... < u_J = 1 is the mixture of CVaRs at the
levels 1 - u_j with weights u_j (s_j - s_{j+1}), s_j being the slope of g before u_j and s_{J+1} = 0. So whatever
knows CVaR exactly, under a posterior say, knows all of these.

**Draw rule.** n = ceil(1 / (1 - |alpha|)) draws: the fewest of which one is expected in the tail. A level is a
rounded number: in floating point 1 / (1 - 0.9) exceeds 10. So a count N (1 - alpha) is taken for the
nearest whole number when a change of ``alpha`` by two units in the last place (2**-52) would make it so;
the draw rule, the weights and the modified estimator all ask the same function.

**Order statistics.** The lowest m of n standard normals are drawn without the other n - m. By Renyi's
representation the logarithm of the survival probability falls from one order statistic to the next by an
independent exponential of rate n, n - 1, ...: log(1 - U_(j+1)) = log(1 - U_(j)) + log(V) / (n - j). It is
carried as a logarithm, hence accurate in both tails, and mapped by the normal quantile.
"""

from __future__ import annotations

from .base import ExactForm, Outermost, RiskMeasure
from .base import form_of as form_of
from .draw_rule import MOST_DRAWS as MOST_DRAWS
from .draw_rule import sample_size, sample_size_is_exact
from .draws import cvar, lowest_normals, modified_cvar
from .equivalents import CertaintyEquivalent, EntropicRisk, EquivalentRows, Expectile
from .measures import CVaR, Mean, MeanCVaR, Mixture, ModifiedCVaR, VaR, WorstCase, measure_of
from .spectral import Spectral

__all__ = [
    "CVaR",
    "CertaintyEquivalent",
    "EntropicRisk",
    "EquivalentRows",
    "ExactForm",
    "Expectile",
    "Mean",
    "MeanCVaR",
    "Mixture",
    "ModifiedCVaR",
    "Outermost",
    "RiskMeasure",
    "Spectral",
    "VaR",
    "WorstCase",
    "cvar",
    "lowest_normals",
    "measure_of",
    "modified_cvar",
    "sample_size",
    "sample_size_is_exact",
]
