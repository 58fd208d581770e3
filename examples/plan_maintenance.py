"""
# Machine maintenance: what to measure next

A machine wears out. Run it, service it or replace it? The log says much about running and little about services. You
have the money to observe ten more services, or ten more of something else. Which observations would improve the
decision most?

`value_of_data` answers that: for every source of uncertainty, by how much the expected return rises if you see more
of it and decide again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import betabinom

import prudent as pr

# mkdocs_gallery_thumbnail_number = 2

# %%
# ## The log
#
# Rows are: condition, action, next condition, reward, how often. A service costs 6, a planned replacement 50, one
# after a failure 90.

conditions = ["new", "good", "worn", "bad", "failed"]
log = [
    ("new", "run", "new", 10, 60),
    ("new", "run", "good", 10, 20),
    ("good", "run", "good", 9, 40),
    ("good", "run", "worn", 9, 18),
    ("good", "run", "failed", 9, 2),
    ("worn", "run", "worn", 7, 12),
    ("worn", "run", "bad", 7, 7),
    ("worn", "run", "failed", 7, 3),
    ("bad", "run", "bad", 3, 4),
    ("bad", "run", "failed", 3, 4),
    ("good", "service", "new", -6, 2),
    ("good", "service", "good", -6, 1),
    ("worn", "service", "good", -6, 3),
    ("worn", "service", "worn", -6, 2),
    ("bad", "service", "worn", -6, 1),
    ("bad", "service", "bad", -6, 1),
    ("worn", "replace", "new", -50, 4),
    ("bad", "replace", "new", -50, 6),
    ("failed", "replace", "new", -90, 9),
]

# %%
# An engineer knows what can happen at all: running makes a machine no better, a service makes it no worse. `support`
# takes that; what is not listed (a replacement) goes by what was seen. The prior of each pair is worth one
# observation.

possible = {
    (c, "run"): conditions[i:]
    for i, c in enumerate(conditions)
    if c != "failed"
}
possible |= {
    (c, "service"): conditions[: i + 1]
    for i, c in enumerate(conditions)
    if c in ("good", "worn", "bad")
}
model, posterior = pr.from_log(
    log, discount=0.95, support=possible, states=conditions
)
print(model.summary)

# %%
# ## The decision now
#
# Level 0.5: every step is judged by the worse half of what the data leaves possible.

ALPHA = 0.5
plan = pr.BayesianRiskMDP(model, posterior, ALPHA).solve()
print(
    plan.to_pandas()[
        ["state", "action", "value", "runner_up", "gap", "evidence"]
    ]
    .round(1)
    .to_string(index=False)
)

# %%
# Three services, and three guesses: `evidence` is 2 to 5 observations each.
#
# ## What are ten more observations worth?

worth = pr.value_of_data(
    model, posterior, alpha=ALPHA, observations=10, start="new", rng=1
)
print(worth)

# %%
# - `gain`: by how much the expected return rises, because the data may change the policy. `switch` says how likely
#   that is.
# - `value_change`: by how much the Bayesian-risk value rises. That counts the caution that data removes, even where
#   no action changes. It explains a number on a report; it is no reason to pay for data.
# - `evidence`: how much has been seen.

figure = worth.plot()

# %%
# Observe services in good condition. The pair with the least evidence is another one (a service in bad condition),
# and observing that is worth almost nothing: a machine that is serviced in time is rarely bad. A gain below zero is
# no mistake: a careful decision maker may change to an action that is less good on average.
#
# How many? One observation of it cannot turn the decision; afterwards each adds less than the one before.

sizes = (1, 3, 5, 10, 20, 40)
services = [("good", "service"), ("worn", "service"), ("bad", "service")]
gains = [
    pr.value_of_data(
        model,
        posterior,
        alpha=ALPHA,
        observations=n,
        start="new",
        sources=services,
        rng=1,
    ).gain
    for n in sizes
]
fig, axes = plt.subplots(figsize=(6.4, 2.9))
for name, gain in zip(services, np.transpose(gains), strict=True):
    axes.plot(sizes, gain, "o-", label=f"service in {name[0]} condition")
axes.set(xlabel="observations", ylabel="gain in expected return")
axes.legend()

# %%
# ## Look at every case
#
# A service in good condition has two outcomes, so ten of them have eleven possible results. Decide anew after each of
# them, and compare both policies over the posterior that it leaves: the true gain, without the shortcut that
# `value_of_data` takes (it judges by the model at the posterior mean).

before = posterior.counts[
    model.source[model.state_index("good"), model.action_index("service")]
]
gain = 0.0
print("made new  chance  then, in good condition  gain")
for made_new in range(11):
    chance = betabinom(10, before[0], before[1]).pmf(
        made_new
    )  # outcomes in the order of `conditions`
    later = posterior.updated(
        [("good", "service")] * 2, ["new", "good"], [made_new, 10 - made_new]
    )
    then = pr.BayesianRiskMDP(model, later, ALPHA).solve()
    earned = pr.posterior_returns(
        model,
        later,
        {"then": then, "now": plan},
        start="new",
        rng=1,
        regret=False,
    )["mean"]
    difference = float(earned[0] - earned[1])
    gain += chance * difference
    action = then.policy_names[model.state_index("good")]
    print(f"{made_new:5d} of 10  {chance:6.3f}  {action:23}  {difference:.2f}")
said = worth.to_pandas().set_index("source")["gain"][("good", "service")]
print(f"expected gain {gain:.2f}; value_of_data says {said:.2f}")

# %%
# If most services in good condition turn out to do nothing, stop servicing there: that is what the gain consists of.
#
# ## What to try next
#
# - `prudent next-data log.csv` does the same without Python: [The command line](../reference/command-line.md).
# - Large models: `limit=20` works out the twenty sources that promise most, by a quick guess, and says which were
#   left out.
# - More caution, other gains: set `ALPHA = 0.9`. What level is right? [Choose alpha](../howto/choose-alpha.md).
# - What you believe before the log: [Choose a prior](../howto/choose-a-prior.md).
