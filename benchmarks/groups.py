"""How well a site's intervals cover, and how good its policy is: groups that learn from each other, apart, or as one.

    python -m benchmarks.groups --logs 200 --workers 16

Each log has four sites of uneven size (400, 60, 1000 and 150 steps of a random policy in 6 states with 3 actions). The
transition rows of the sites are drawn around common ones: theta ~ Dirichlet(kappa mu), for several true kappa; in the
world "two kinds" they are not, two sites share one model and the other two another, which none of the fits assumes. For
every site and fit: whether the 90% interval of the return of the random policy, from state 0, covers that return in the
true model of the site; how wide it is; and how much the risk-neutral policy of the fit loses against the best policy of
the site. All fits have the pairs and next states of the whole log. Errors are standard errors over logs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import prudent as pr
from benchmarks._study import results

STATES, ACTIONS, DISCOUNT = 6, 3, 0.9
SIZES = {"a": 400, "b": 60, "c": 1_000, "d": 150}
WORLDS = ("2", "10", "50", "inf", "two kinds")
FITS = ("alike", "apart", "one")
MEASURES = ("covered", "width", "loss")


def true_models(world: str, rng: np.random.Generator) -> np.ndarray:
    """Return the transition probabilities [4, S, A, S] of the sites."""
    kinds = rng.dirichlet(np.full(STATES, 0.5), (2, STATES, ACTIONS))
    if world == "two kinds":
        return kinds[[0, 1, 0, 1]]
    kappa = float(world)
    if kappa == np.inf:
        return kinds[[0, 0, 0, 0]]
    weights = rng.gamma(np.maximum(kappa * kinds[0], 1e-3), size=(4, *kinds[0].shape)) + 1e-300
    return weights / weights.sum(axis=-1, keepdims=True)


def one_log(task: tuple[str, int]) -> list[list[float]]:
    """Return the measures [fits, measures] of one log, the mean over its sites."""
    world, seed = task
    rng = np.random.default_rng([seed, WORLDS.index(world)])
    theta, reward = true_models(world, rng), rng.normal(size=(STATES, ACTIONS))
    rows: dict[str, list[object]] = {"site": [], "state": [], "action": [], "next_state": [], "reward": []}
    for g, (site, size) in enumerate(SIZES.items()):
        s = 0
        for _ in range(size):
            a = int(rng.integers(ACTIONS))
            to = int(rng.choice(STATES, p=theta[g, s, a]))
            for name, value in zip(rows, (site, s, a, to, float(reward[s, a])), strict=True):
                rows[name].append(value)
            s = to
    model, posteriors = pr.from_log(rows, DISCOUNT, group="site")
    own = {site: posterior.counts - posterior.prior for site, posterior in posteriors.items()}
    base = pr.from_log({name: cells for name, cells in rows.items() if name != "site"}, DISCOUNT)[1].prior
    kept = [list(range(STATES)).index(state) for state in model.states]
    random = np.where(model.admissible, 1.0, 0.0) / model.admissible.sum(axis=1, keepdims=True)
    found = np.zeros((len(FITS), len(MEASURES)))
    for g, site in enumerate(SIZES):
        true = pr.MDP(theta[g][np.ix_(kept, range(ACTIONS), kept)], reward[kept], DISCOUNT)
        truth, best = pr.evaluate(true, random).value[0], pr.solve(true).value[0]
        fits = (posteriors[site].counts, base + own[site], base + sum(own.values()))
        for row, counts in zip(found, fits, strict=True):
            returns = pr.posterior_returns(model, counts, {"random": random}, 0, 400, seed, regret=False)
            low, _, high = returns["quantile"].values[0]
            policy = pr.BayesianRiskMDP(model, counts, 0.0).solve().policy
            row += np.array([low <= truth <= high, high - low, best - pr.evaluate(true, policy).value[0]]) / len(SIZES)
    return found.tolist()


def main() -> None:
    """Print a table for each world."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a file for what was found so far, from which a run goes on")
    asked = parser.parse_args()
    said = results(
        one_log, [(world, seed) for world in WORLDS for seed in range(asked.logs)], asked.workers, asked.keep
    )
    print(f"{'true similarity':>16} {'fit':>6} {'coverage of 90%':>18} {'width':>8} {'loss of the policy':>20}")
    for i, world in enumerate(WORLDS):
        found = np.array(said[i * asked.logs : (i + 1) * asked.logs])
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(asked.logs)
        for name, (cover, width, loss), (cover_se, _, loss_se) in zip(FITS, mean, error, strict=True):
            cells = f"{cover:.3f} ± {cover_se:.3f}", f"{width:.2f}", f"{loss:.3f} ± {loss_se:.3f}"
            print(f"{world:>16} {name:>6} {cells[0]:>18} {cells[1]:>8} {cells[2]:>20}", flush=True)


if __name__ == "__main__":
    main()
