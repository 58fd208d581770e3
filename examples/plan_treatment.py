"""
# A treatment choice with few patients

A new drug has done well in the acute phase: four of five patients went home. The standard treatment sent home 42 of
60. Should the next patient get the new drug? The average says yes. Five patients are five patients.

You will make a model from a log, read why a policy decides as it does, and choose how careful to be by what each
level earns, not by taste. The numbers are invented.
"""

import warnings

import prudent as pr

# mkdocs_gallery_thumbnail_number = 2

# %%
# ## The log
#
# Rows are: state, action, next state, reward, how many patients. All that counts is how it ends, so rewards are zero
# and the terminal states have values: home 1, died 0. With a discount close to one a value is nearly the probability
# of going home.

log = [
    ("acute", "standard", "home", 0, 42),
    ("acute", "standard", "relapse", 0, 12),
    ("acute", "standard", "died", 0, 6),
    ("acute", "new drug", "home", 0, 4),
    ("acute", "new drug", "relapse", 0, 1),
    ("acute", "surgery", "home", 0, 2),
    ("acute", "surgery", "died", 0, 1),
    ("relapse", "standard", "home", 0, 12),
    ("relapse", "standard", "relapse", 0, 9),
    ("relapse", "standard", "died", 0, 6),
    ("relapse", "new drug", "home", 0, 2),
    ("relapse", "surgery", "home", 0, 7),
    ("relapse", "surgery", "died", 0, 3),
]
model, posterior = pr.from_log(
    log,
    discount=0.99,
    terminal={"home": 1, "died": 0},
    support="state",
)
print(model.summary)

# %%
# !!! warning "Say what can happen"
#     Nobody has died on the new drug, yet. With `support="action"` nobody ever would: only next states
#     seen after this action count as possible. `support="state"` takes all that were seen after any action in this
#     state. Where zero of five may mean anything, that is the line that matters most in the whole script.
#
# ## Neutral and careful

neutral = pr.BayesianRiskMDP(model, posterior, alpha=0).solve()
careful = pr.BayesianRiskMDP(model, posterior, alpha=0.8).solve()
for name, plan in (("neutral", neutral), ("careful", careful)):
    print(
        name,
        {
            s: a
            for s, a in zip(plan.states, plan.policy_names, strict=True)
            if a is not None
        },
    )

# %%
# ## Why?

why = careful.explain("acute")
print(why)

# %%
figure = why.plot()

# %%
# The last lines are what you can take to a meeting: how many more patients like those so far would turn the decision.
#
# ## How careful?
#
# `risk_profile` solves several levels and judges each policy by its true return: the same 20,000 models from the
# posterior for all of them. It recommends the lowest level that protects as well as all higher ones. Where more
# caution buys nothing it warns; here the warning is part of the answer.

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    profile = pr.risk_profile(
        model, posterior, alphas=(0, 0.5, 0.8, 0.9), start="acute", rng=1
    )
print(
    profile.to_pandas()[
        ["mean", "cvar", "5%", "states_differ", "risk_value", "recommended"]
    ].round(3)
)
print(f"\n{told[0].category.__name__}: {told[0].message}")

# %%
figure = profile.plot()

# %%
# Level 0.8 gives the standard treatment in the acute phase, where much is known of it, and the new drug after a
# relapse, where the standard is poor. Level 0.9 is afraid of the new drug there, too, and that loses on average and
# in the worst tenth: each step is judged by its own worst tenth, as if all that is unknown were bad at once.
#
# ## What the policies earn

plans = {
    "neutral": neutral,
    "careful": careful,
    "standard always": {"acute": "standard", "relapse": "standard"},
}
returns = pr.posterior_returns(
    model, posterior, plans, start="acute", draws=2_000, rng=1
)
print(returns[["mean", "cvar", "probability_best"]].to_pandas().round(3))
figure = pr.analysis.plot_returns(returns)

# %%
# The careful policy gives up some of the average for a better worst tenth. Whether that is right is not for
# statistics to say; that the two differ, and by how much, is.
#
# ## What to try next
#
# - What would five more patients on the new drug be worth? `pr.value_of_data`, as in [Machine
#   maintenance](plan_maintenance.md).
# - `min_count=3` leaves out what was tried less often in a state: [Few data or many](../howto/few-or-many-data.md).
# - The same from the command line, with a page for colleagues: `prudent solve log.csv`, see [Start here: the
#   analyst](../start/analyst.md).
# - Which level? [Choose alpha](../howto/choose-alpha.md).
# - Seven hundred states and ten thousand patients: [ICU-Sepsis](plan_icu_sepsis.md).
