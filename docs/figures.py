"""Draws the figures of the site's pages into docs/figures/. Those of the gallery come from its examples.

A figure is a function of this file that computes with the library and returns a figure of matplotlib. Its file is
called as the function is. One that is newer than this file is left as it is.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from scipy.stats import beta

import prudent as pr
from prudent.display.style import RC, hex_of

FOLDER = Path(__file__).parent / "figures"
WIDTH = 4.2  # inches: on a phone, letters of 9 points are then 10 pixels high

# successes and trials of three treatments; before data every chance is as likely as any other
TRIALS = {"usual": (30, 50), "new": (3, 4), "untried": (0, 0)}
TREATMENTS = {"usual": "law", "new": "brps-0.99", "untried": "brps-0.8"}  # colours
LEVELS = {-0.9: "optimistic", 0.0: "ts", 0.5: "brps-0.5", 0.9: "brps-0.9"}


def canvas(height: float = 2.9, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, one below the other."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)  # a margin of white, on dark pages
    return figure, figure.subplots(rows, **options)


def counts_of(successes: float, trials: float) -> list[float]:
    """Return the Dirichlet counts of (failure, success), one each before data."""
    return [1.0 + trials - successes, 1.0 + successes]


def named(alpha: float) -> str:
    """Return a level as figures write it."""
    return f"α = {alpha:g}".replace("-", "−")


def posterior() -> Figure:
    """What 3 successes of 4 and 30 of 40 leave open."""
    figure, axes = canvas()
    chance = np.linspace(0.0, 1.0, 401)
    for (successes, trials), colour, place in (((3, 4), "brps-0.99", (0.26, 1.15)), ((30, 40), "law", (0.51, 4.6))):
        failures, good = counts_of(successes, trials)
        density = beta.pdf(chance, good, failures)
        axes.plot(chance, density, color=hex_of(colour))
        axes.fill_between(chance, density, color=hex_of(colour), alpha=0.15, linewidth=0)
        mean = pr.exact.cvar_dirichlet([0.0, 1.0], [failures, good], 0.0)
        axes.plot([mean, mean], [0.0, beta.pdf(mean, good, failures)], color=hex_of(colour), linestyle="--")
        axes.text(*place, f"{successes} of {trials}", color=hex_of(colour), ha="center", fontweight="bold")
    axes.set(xlabel="chance of success", ylabel="how plausible (density)", xlim=(0, 1), ylim=(0, None))
    axes.set_title("Few data leave much open (dashed: the mean)")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    return figure


def tails() -> Figure:
    """The worst tenth and the best tenth of a posterior, and their means."""
    figure, axes = canvas()
    failures, good = counts_of(*TRIALS["new"])
    chance = np.linspace(0.0, 1.0, 801)
    density = beta.pdf(chance, good, failures)
    axes.plot(chance, density, color=hex_of("ink"))
    marks = ((0.9, "mean of the\nworst tenth"), (0.0, "mean of all"), (-0.9, "mean of the\nbest tenth"))
    for alpha, words in marks:
        level = pr.exact.cvar_dirichlet([0.0, 1.0], [failures, good], alpha)
        colour = hex_of(LEVELS[alpha])
        if alpha:
            edge = pr.exact.var_dirichlet([0.0, 1.0], [failures, good], alpha)
            there = chance <= edge if alpha > 0.0 else chance >= edge
            axes.fill_between(chance, density, where=there, color=colour, alpha=0.55, linewidth=0)
        axes.plot([level, level], [0.0, 2.3], color=colour, linestyle="--", linewidth=1.2)
        axes.text(level, 2.36, f"{words}\n{level:.0%}", ha="center", va="bottom", fontsize=8.0)
    axes.set(xlabel="chance of success, after 3 of 4", ylabel="how plausible (density)", xlim=(0, 1), ylim=(0, 3.1))
    axes.set_title("α = 0.9 averages the worst tenth, α = −0.9 the best")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    return figure


def dial() -> Figure:
    """Three treatments valued at every level, and which one is chosen."""
    figure, axes = canvas(3.3)
    alphas = np.linspace(-0.95, 0.95, 191)
    values = {name: pr.exact.cvar_dirichlet([0.0, 1.0], counts_of(*trials), alphas) for name, trials in TRIALS.items()}
    best = np.argmax(list(values.values()), axis=0)
    for i, (name, value) in enumerate(values.items()):
        colour = hex_of(TREATMENTS[name])
        successes, trials = TRIALS[name]
        axes.plot(alphas, value, color=colour, linewidth=1.2, label=f"{name}: {successes} of {trials}")
        axes.plot(alphas, np.where(best == i, value, np.nan), color=colour, linewidth=4.0, alpha=0.55)
        chosen = alphas[best == i]
        axes.plot([chosen[0], chosen[-1]], [-0.06, -0.06], color=colour, linewidth=7.0, solid_capstyle="butt")
        first = name == "untried"  # its bar is short
        place = -0.94 if first else chosen.mean()
        axes.text(place, -0.04, name, color=colour, ha="left" if first else "center", va="bottom", fontsize=8.0)
    for change in alphas[1:][np.diff(best) != 0]:
        axes.axvline(change, color=hex_of("neutral"), linewidth=0.8, linestyle=":")
    axes.set(xlabel="level α (left: hope, right: caution)", ylabel="chance of success, as valued")
    axes.set(xlim=(-0.95, 0.95), ylim=(-0.1, 1.0), xticks=[-0.9, -0.5, 0.0, 0.5, 0.9])
    axes.set_title("The dial chooses (bar below: the treatment chosen)")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.14))
    return figure


def stall() -> tuple[pr.UncertainMDP, pr.DirichletPosterior]:
    """Return a market stall and what four days say of its demand.

    A melon costs 1 and sells for 3, what is left is lost; the prior is worth one day, spread over 0 to 8 melons.
    """
    model = pr.UncertainMDP.from_dynamics(
        lambda _, order, demand: (None, 3.0 * min(order, demand) - order), ["morning"], range(9), range(9), discount=0.0
    )
    return model, pr.DirichletPosterior.for_model(model, prior=1).update(source=0, outcome=[3, 5, 2, 4])


def order() -> Figure:
    """What each order of a market stall is worth at three levels, after four days."""
    figure, axes = canvas()
    model, belief = stall()
    for alpha in (-0.9, 0.0, 0.9):
        values = pr.BayesianRiskMDP(model, belief, alpha).solve().q[0]
        colour = hex_of(LEVELS[alpha])
        axes.plot(range(9), values, color=colour, marker=".", label=named(alpha))
        top = int(values.argmax())
        axes.plot(top, values[top], marker="o", markersize=9, markerfacecolor="none", color=colour, linestyle="none")
        away = (0, 8 if alpha < 0.0 else -16)
        axes.annotate(f"order {top}", (top, values[top]), away, textcoords="offset points", ha="center", fontsize=8.0)
    axes.set(xlabel="melons bought in the morning", ylabel="mean profit a day, as valued", ylim=(-1.0, 9.4))
    axes.set_title("Caution buys less, hope buys more")
    axes.legend(loc="upper left")
    return figure


def machine() -> tuple[pr.MDP, pr.UncertainMDP]:
    """Return a machine that breaks and is repaired: as it is, and as one knows it who has yet to watch it."""
    truth = pr.MDP([[[0.9, 0.1]], [[0.4, 0.6]]], reward=[[1.0], [0.0]], discount=0.95)
    return truth, pr.UncertainMDP.direct([[1.0], [0.0]], discount=0.95)


def watched(observations: float) -> pr.DirichletPosterior:
    """Return what is known of the machine after so many observations that are just as its truth has them on average."""
    chain = np.array([[0.9, 0.1], [0.4, 0.6]])
    visits = pr.theory.stationary_distribution(chain)
    return pr.DirichletPosterior(1.0 + observations * visits[:, np.newaxis] * chain)


def melting() -> Figure:
    """The value of a machine at several levels as observations come in, and how caution shrinks."""
    figure, (above, below) = canvas(5.0, 2, sharex=True)
    truth, model = machine()
    numbers = np.geomspace(10, 100_000, 25)
    values = {
        alpha: np.array([pr.BayesianRiskMDP(model, watched(n), alpha).solve().value[0] for n in numbers])
        for alpha in LEVELS
    }
    above.axhline(pr.solve(truth).value[0], color=hex_of("neutral"), linestyle=":", label="true value")
    for alpha, value in values.items():
        above.plot(numbers, value, color=hex_of(LEVELS[alpha]), label=named(alpha))
    for alpha in (0.5, 0.9):
        colour = hex_of(LEVELS[alpha])
        below.plot(numbers, values[0.0] - values[alpha], color=colour, label=f"price of {named(alpha)}")
        law = -pr.theory.limit_law(truth, [0, 0], alpha).mean[0] / np.sqrt(numbers)
        below.plot(numbers, law, color=hex_of("ink"), linestyle="--", linewidth=1.0, label="limit law, ∝ 1/√n")
    above.set(xscale="log", ylabel="value (discounted hours)", ylim=(0, 21))
    above.set_title("Caution melts away with data ...")
    above.legend(loc="lower right", ncols=2)
    below.set(xscale="log", yscale="log", xlabel="observations", ylabel="value at α = 0 less at α")
    below.set_title("... like one over the square root of n")
    lines = below.get_lines()
    below.legend(handles=[lines[0], lines[2], lines[3]], loc="lower left")
    return figure


def tour(shops: int, successes: float = 3, trials: float = 4) -> tuple[pr.UncertainMDP, pr.DirichletPosterior]:
    """Return a tour of shops, each with a chance of its own to buy, and what the trials in each say of it."""
    model = pr.UncertainMDP.from_dynamics(
        lambda shop, _, bought: (shop + 1 if shop + 1 < shops else None, float(bought)),
        range(shops),
        ["visit"],
        {shop: [0, 1] for shop in range(shops)},
        discount=0.999,
        source=lambda shop, _: shop,
    )
    return model, pr.DirichletPosterior([counts_of(successes, trials)] * shops)


def nested() -> Figure:
    """Risk taken at every step against the risk of the whole return, as a tour grows longer."""
    figure, axes = canvas(3.1)
    lengths = [1, 2, 3, 5, 8, 12, 20, 30, 50]
    rows = []
    for shops in lengths:
        model, belief = tour(shops)
        plan = pr.BayesianRiskMDP(model, belief, alpha=0.9).solve()
        found = pr.posterior_returns(model, belief, {"tour": plan}, start=0, draws=2000, rng=1, regret=False)
        visits = (1.0 - 0.999**shops) / 0.001  # of which later ones count a little less
        told = [found["mean"], found.cvar, found.risk_value, found.returns.min(), found.returns.max()]
        rows.append([float(each.squeeze()) / visits for each in told])
    mean, cvar, value, low, high = np.transpose(rows)
    axes.fill_between(lengths, low, high, color=hex_of("neutral"), alpha=0.25, linewidth=0, label="all 2,000 draws")
    axes.plot(lengths, mean, color=hex_of("ts"), label="mean")
    axes.plot(lengths, cvar, color=hex_of("law"), marker=".", label="worst tenth of the return")
    axes.plot(lengths, value, color=hex_of("brps-0.9"), marker=".", label="Bayesian-risk value, α = 0.9")
    axes.set(xscale="log", xlabel="shops on the tour, each 3 sales of 4 so far", ylabel="sales per visit", ylim=(0, 1))
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.set_title("Risk at every step is not the risk of the sum")
    axes.legend(loc="lower right", fontsize=8.0, borderaxespad=0.2)
    return figure


def played() -> Any:
    """Return bandits at play on five arms, of which the first is the best in every context."""
    arms = pr.envs.LinearBanditEnv([[1.0], [0.8], [0.6], [0.4], [0.2]], noise_sd=0.5)
    agents = [
        pr.bandits.BanditSettings(0.0, label="α = 0"),
        pr.bandits.BanditSettings(0.5, label="α = 0.5"),
        pr.bandits.BanditSettings(0.9, label="α = 0.9"),
        pr.bandits.BanditSettings(0.9, first_pulls=20, label="α = 0.9, 20 first pulls"),
    ]
    times = range(20, 2001, 20)
    return pr.simulation.simulate_bandit(arms, agents, horizon=2000, replications=200, rng=1, alphas=[0.5], times=times)


def lockin() -> Figure:
    """What bandits lose at three levels, how many are stuck, and what first pulls do about it."""
    figure, (above, below) = canvas(4.6, 2, height_ratios=(3, 1.6))
    runs = played()
    stuck = (runs.pulls.isel(arm=0) < 0.05 * 2000).mean("replication").values
    colours = [hex_of(colour) for colour in ("ts", "brps-0.5", "brps-0.9", "brps-0.8")]
    for label, colour in zip(runs.agent.values, colours, strict=True):
        dashes = "--" if "first" in label else "-"
        mean = runs.regret.sel(agent=label).mean("replication")
        above.plot(runs.time, mean, color=colour, linestyle=dashes, label=label)
    above.set(xlabel="decisions", ylabel="reward lost so far (mean)", xlim=(0, 2000), ylim=(0, None))
    above.set_title("A cautious bandit may never try the best arm")
    above.legend(loc="upper left")
    bars = below.barh(range(len(stuck)), stuck, color=colours, height=0.7)
    below.bar_label(bars, [f"{share:.0%}" for share in stuck], padding=3, fontsize=8.0)
    below.set_yticks(range(len(stuck)), ["α = 0", "α = 0.5", "α = 0.9", "first pulls"])
    below.set(xlabel="runs that hardly ever take the best arm", xlim=(0, 1))
    below.xaxis.set_major_formatter(PercentFormatter(1.0))
    below.invert_yaxis()
    below.grid(visible=False, axis="y")
    return figure


def ward(alpha: float) -> pr.LinearBandit:
    """Return a bandit that has learned from the trials of the three treatments."""
    bandit = pr.LinearBandit(list(TRIALS), dim=0, rewards="bernoulli", alpha=alpha, rng=1)
    for name, (successes, trials) in TRIALS.items():
        for i in range(trials):
            bandit.update(None, name, float(i < successes))
    return bandit


def propensities() -> Figure:
    """With which chance a bandit takes each of the three treatments, at every level."""
    figure, axes = canvas(3.2)
    alphas = (-0.95, -0.9, -0.8, -0.5, 0.0, 0.5, 0.8, 0.9, 0.95)  # 1 - 1/n: a score is the lowest of n draws
    chances = np.array([ward(alpha).propensities() for alpha in alphas])
    below = np.zeros(len(alphas))
    for name, chance in zip(TRIALS, chances.T, strict=True):
        successes, trials = TRIALS[name]
        label = f"{name}: {successes} of {trials}"
        colour = hex_of(TREATMENTS[name])
        bars = axes.bar(range(len(alphas)), chance, bottom=below, color=colour, alpha=0.65, label=label, edgecolor="w")
        shown = [f"{each:.0%}" if each > 0.06 else "" for each in chance]
        axes.bar_label(bars, shown, label_type="center", fontsize=7.0)
        below += chance
    axes.set_xticks(range(len(alphas)), [f"{alpha:g}".replace("-", "−") for alpha in alphas])
    axes.set(xlabel="level α (0: Thompson sampling)", ylabel="chance of being chosen", ylim=(0, 1))
    axes.set_title("Every choice has a known chance")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(visible=False)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8.0, columnspacing=1.0, handlelength=1.2)
    return figure


def episodes() -> Figure:
    """Estimates from the log of the page on episodes."""
    text = (Path(__file__).parent / "howto" / "off-policy-episodes.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"print": lambda *_: None}
    for block in text.split("```python\n")[1:3]:  # the world, and the question
        exec(block.split("```")[0], names)  # the page itself
    return names["found"].plot()


def learning() -> Figure:
    """What learning inside the horizon is worth with two arms of which nothing is known."""
    figure, axes = canvas(3.0)
    arms = pr.UncertainMDP(source=[[0, 1]], next_state=[[[0, 0], [0, 0]]], reward=[[[0, 1], [0, 1]]], discount=1)
    alphas = np.round(np.arange(0.0, 0.96, 0.05), 2)
    for horizon, colour in ((5, "brps-0.5"), (10, "brps-0.9"), (20, "brps-0.99")):
        plans = [
            pr.BayesianRiskMDP(arms, np.ones((2, 2)), alpha).solve(horizon=horizon, learning=True) for alpha in alphas
        ]
        worth = [100.0 * float(plan.value_of_learning[0] / plan.fixed_value[0]) for plan in plans]
        axes.plot(alphas, worth, color=hex_of(colour), marker=".", label=f"{horizon} pulls")
    axes.axhline(0.0, color=hex_of("ink"), linewidth=0.8)
    axes.fill_between([0.0, 1.0], -60.0, 0.0, color=hex_of("neutral"), alpha=0.18, linewidth=0)
    axes.text(0.03, -50.0, "learning costs", fontsize=8.0)
    axes.set(xlabel="level α", ylabel="value of learning, %", xlim=(0.0, 0.97), ylim=(-60.0, 30.0))
    axes.set_title("With caution, learning can be worth less than nothing")
    axes.legend(loc="upper right")
    return figure


def stream() -> Figure:
    """How far Bayesian-risk Q-learning is from the certified values, over its updates."""
    figure, axes = canvas(3.0)
    rng = np.random.default_rng(1)
    problem = pr.envs.random_model(5, 2, branching=3, discount=0.8, rng=rng)
    log = problem.model.trajectory(problem.theta, np.zeros(5, int), 100, rng=rng)
    marks = np.unique(np.geomspace(1.0, 3_000.0, 25).astype(int))
    ways = (None, "brps-0.5"), (1_000, "brps-0.9"), (100, "brps-0.99"), (20, "law")
    for risk, measure, line in (("cvar", pr.CVaR(0.7), "-"), ("var", pr.VaR(0.7), "--")):
        for draws, colour in ways:
            settings = pr.agents.brql(0.7, risk=risk, draws=draws, batch=10**6)
            agent = pr.agents.QLearningAgent(problem.model, settings=settings, rng=2, indices=True)
            for row in log:
                agent.observe(*row[:3])
            wanted = pr.BayesianRiskMDP(problem.model, agent.posterior, risk=measure).solve().value
            off, done = [], 0
            for mark in marks.tolist():
                agent.learn(mark - done)
                done = mark
                off.append(abs(agent.value - wanted).max() / abs(wanted).max())
            name = f"{measure.__class__.__name__}, {'exact rows' if draws is None else f'{draws:,} draws'}"
            axes.loglog(marks, off, line, color=hex_of(colour), label=name)
    axes.set(xlabel="updates of Q", ylabel="distance to the certified value")
    axes.set_title("Exact rows go on where draws stop", fontsize=10)
    axes.legend(fontsize=6.5, loc="lower left")
    return figure


FIGURES: tuple[Callable[[], Figure], ...] = (
    posterior,
    tails,
    dial,
    order,
    melting,
    nested,
    lockin,
    propensities,
    episodes,
    learning,
    stream,
)


def drawn(draw: Callable[[], Figure]) -> Figure:
    """Return a figure in the style of all figures of the library."""
    with mpl.rc_context(RC):
        return draw()


def main(folder: Path = FOLDER) -> None:
    """Draw all of them that are older than this file, or missing."""
    folder.mkdir(exist_ok=True)
    for draw in FIGURES:
        path = folder / f"{draw.__name__}.svg"
        if path.exists() and path.stat().st_mtime > Path(__file__).stat().st_mtime:
            continue
        figure = drawn(draw)
        file = io.BytesIO()
        with mpl.rc_context(RC):
            figure.savefig(file, format="svg", metadata={"Date": None})
        path.write_bytes(file.getvalue())


if __name__ == "__main__":
    main()
