"""
# A news bandit: clicks, drift and off-policy evaluation

A front page has room for one of five articles. Readers click or they do not. What they like depends on who they are,
and changes when the news does. The bandit learns from clicks, forgets what is old, and writes down every decision
with its exact probability. So the log answers a question that was asked too late: what would another policy have
earned?
"""

# %%
# ## A world with a truth
#
# Readers have four features. Each article is clicked with a probability that depends on them, 8% to 24% for the
# average reader. After 1,200 readers something happens, and every article takes over the readership of the next one.
# In a real product you do not know any of this; here we do, so that we can check what the library says.
import shutil
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas

import prudent as pr

ARTICLES = ["politics", "sport", "science", "culture", "weather"]
world = pr.envs.logistic_bandit(
    len(ARTICLES), 4, rates=(0.08, 0.24), strength=1.0, rng=3, drift=1200
)
STEPS = 4000

# %%
# ## Forget what is old
#
# [`pr.simulation.simulate_bandit`][prudent.simulation.simulate_bandit] plays bandits with different options on the
# same readers, three
# times. `rewards="bernoulli"` is for clicks, and `half_life=500` lets evidence count half after 500 decisions. Thin
# lines are single runs, thick ones their mean.
runs = pr.simulation.simulate_bandit(
    world,
    {
        "never forgets": {"rewards": "bernoulli"},
        "half-life 500": {"rewards": "bernoulli", "half_life": 500},
    },
    horizon=2400,
    replications=3,
    rng=1,
)
figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for agent, colour in zip(
    runs.agent.values, ("#e69f00", "#009e73"), strict=True
):
    regret = runs.regret.sel(agent=agent)
    axes.plot(runs.time, regret.T, color=colour, linewidth=0.7, alpha=0.6)
    axes.plot(
        runs.time,
        regret.mean("replication"),
        color=colour,
        linewidth=2,
        label=agent,
    )
axes.axvline(1200, color="#6b6b6e", linestyle=":")
axes.annotate(
    "the news changes",
    (1200, 0.97),
    xycoords=("data", "axes fraction"),
    xytext=(5, 0),
    textcoords="offset points",
    va="top",
    color="#6b6b6e",
)
axes.set(
    xlabel="reader",
    ylabel="clicks lost against the best article",
    xlim=(0, 2400),
    ylim=(0, None),
)
axes.legend(loc="upper left")
plt.show()
for agent in runs.agent.values:
    before, after = (
        runs.regret.sel(agent=agent)
        .mean("replication")
        .sel(time=[1200, 2400])
        .values
    )
    print(
        f"{agent:16} lost {before:4.0f} clicks before the change, {after - before:4.0f} after it"
    )

# %%
# Forgetting has its price: before the change it costs some clicks, as a bandit that forgets never stops exploring.
# Which half-life pays is a question about your world: it should be shorter than the time between changes, and long
# enough to learn in. `pr.evaluation.tune` compares several on a log.
#
# ## In production: a journal
#
# [`pr.Journal`][prudent.Journal] writes each decision and each reward into one SQLite file and survives `kill -9`.
# `min_propensity=0.05` leaves every article a chance of 5%: without it, the log says little about what the bandit
# does not like, and no estimator can repair that afterwards.
bandit = pr.LinearBandit(
    ARTICLES,
    features=["young", "evening", "mobile", "abroad"],
    rewards="bernoulli",
    half_life=500,
    min_propensity=0.05,
    rng=1,
)
readers = np.random.default_rng(1)
truth = np.empty(
    (STEPS, len(ARTICLES))
)  # the chances of a click, for the check below
folder = Path(tempfile.mkdtemp())  # in a product: a folder that stays
with pr.Journal(folder / "front-page.db", bandit, synchronous="NORMAL") as live:
    for t in range(0, STEPS, 10):  # ten readers at a time
        visitors = np.array(
            [world.context(t + i + 1, readers) for i in range(10)]
        )
        decisions = live.select(visitors)
        clicks = []
        for i, decision in enumerate(decisions):
            truth[t + i] = world.mean_rewards(t + i + 1, visitors[i])
            clicks.append(
                world.reward(
                    t + i + 1,
                    visitors[i],
                    ARTICLES.index(decision.arm),
                    readers,
                )
            )
        live.reward(
            [decision.id for decision in decisions], clicks
        )  # in a product: when they come, in any order
        if t + 10 == 2500:
            frozen = live.bandit  # a copy, as it was after 2,500 readers
    print("exported:", live.export(folder / "log.jsonl"), "decisions")

log = pandas.read_json(folder / "log.jsonl", lines=True)
shutil.rmtree(folder)
print(log[["arm", "propensity", "reward"]].tail(4).to_string())

# %%
# ## What would another policy have earned?
#
# The last 1,500 decisions are the log to judge by; the news has settled by then. Four policies that nobody has run:
#
# - *uniform*: any article with the same chance;
# - *always science*: one article for everybody;
# - *the editor*: culture for mobile readers, politics for the others;
# - *frozen*: the bandit as it was after 2,500 readers, which then stops learning.
#
# [`pr.off_policy`][prudent.off_policy] takes each of them as it comes: a word, the name of an arm, a function of the
# contexts, a bandit. The last one must not have learned from the rows that judge it; this one has not.
late, chances = log.iloc[2500:], truth[2500:]
readers_late = np.stack(late["context"].to_numpy())
editor = np.where(readers_late[:, 2] > 0, "culture", "politics")
policies = {
    "uniform": "uniform",
    "always science": "science",
    "the editor": editor,
    "frozen": frozen,
}
expected = {
    "uniform": chances.mean(),
    "always science": chances[:, ARTICLES.index("science")].mean(),
    "the editor": chances[
        np.arange(len(late)), [ARTICLES.index(arm) for arm in editor]
    ].mean(),
    "frozen": (chances * frozen.propensities(readers_late)).sum(axis=1).mean(),
}
with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore", pr.errors.OverlapWarning
    )  # printed below instead
    tables = {
        name: pr.off_policy(late, target, arms=ARTICLES)
        for name, target in policies.items()
    }
print(f"the log itself earned {tables['uniform'].value:.4f} clicks a reader\n")
print(
    f"{'':16}{'truth':>8}{'dr':>9}{'95% interval':>20}{'rows that count':>18}"
)
for name, table in tables.items():
    row = table.loc["dr"]
    told = f"{row['low']:.4f} to {row['high']:.4f}"
    print(
        f"{name:16}{expected[name]:8.4f}{row['estimate']:9.4f}{told:>20}{table.loc['ips', 'ess']:18.0f}"
    )
    for doubt in table.warnings:
        print(f"{'':16}doubtful: {doubt}")

# %%
# The truth should lie in such an interval in 19 cases of 20. The intervals are widest for the policies that do what
# the bandit rarely did: of 1,500 rows only the last column counts for them. This is the number to look at first.
# Below 50, or 2% of the rows, an `OverlapWarning` says so.
# The intervals hold at every number of rows, also for the log of a bandit that learned; ``interval="normal"`` would
# be too narrow where a few dozen clicks decide.
#
# The three estimators differ in what they trust. `ips` trusts the propensities alone, `dm` a regression of clicks
# alone, and its interval takes the regression for right. `dr` needs one of the two to be right; it is the one to
# report.
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
places = np.arange(len(tables))[::-1]
for shift, kind, colour in (
    (0.2, "ips", "#56b4e9"),
    (0.0, "dr", "#0072b2"),
    (-0.2, "dm", "#e69f00"),
):
    rows = [table.loc[kind] for table in tables.values()]
    middle = np.array([row["estimate"] for row in rows])
    ends = np.array([[row["low"], row["high"]] for row in rows]).T
    axes.errorbar(
        middle,
        places + shift,
        xerr=abs(ends - middle),
        fmt="o",
        color=colour,
        markersize=4,
        label=kind,
    )
axes.vlines(
    list(expected.values()),
    places - 0.35,
    places + 0.35,
    color="#000000",
    label="truth",
)
axes.axvline(
    tables["uniform"].value,
    color="#6b6b6e",
    linestyle=":",
    label="the log itself",
)
axes.set_yticks(places, list(tables))
axes.set(xlabel="clicks a reader, with 95% intervals")
axes.grid(axis="y", visible=False)
figure.legend(loc="outside lower center", ncols=5)
plt.show()

# %%
# ## What to try next
#
# - Set `min_propensity=0` and run it again: what becomes of the intervals of *always science*?
# - `tables["frozen"].plot()` draws all estimators; `tables["frozen"].curve("dr")` follows one over the rows.
# - `pr.evaluation.replay(log, bandit)` plays a bandit that learns on the log; `pr.evaluation.tune` compares options
# by it.
# - [Bandits in production](../howto/bandits-in-production.md): delayed and missing rewards, several processes,
#   containers that cannot write. [Off-policy evaluation](../howto/off-policy-evaluation.md): which estimator, which
#   interval.
# - [Item features and cold start](bandit_cold_start.md), for articles that are new every day.
