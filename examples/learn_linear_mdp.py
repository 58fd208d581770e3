"""
# A linear MDP: features are known, coefficients are not

Transitions are linear in known features: `P(s' | s, a) = phi(s, a) . mu(s')`; rewards are known. Least squares with a
Gaussian posterior then plans without a table of transitions: at each step of an episode the value of an action is its
reward plus `phi . theta`, and theta is drawn from its posterior (randomised least-squares value iteration).

The agent is a class of our own. It runs in `simulate` beside posterior sampling with Dirichlet counts, in the same
worlds, and its regret is exact, since it shows its policy.
"""

# %%
# ## A problem
#
# Thirty states, four actions, and five features that sum to one. Each feature has a distribution of next states of its
# own, so the chances of a pair are a mixture of five distributions. Two of the states pay. Episodes have eight steps.
import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

S, A, D, H = 30, 4, 5, 8
rng = np.random.default_rng(4)
PHI = rng.dirichlet(np.full(D, 0.2), size=(S, A))  # [S, A, D]
MU = rng.dirichlet(np.full(S, 0.1), size=D)  # [D, S']
REWARD = np.zeros((S, A))
REWARD[[3, 17]] = 1.0
model = pr.UncertainMDP.direct(REWARD, discount=1.0)
problem = pr.envs.Problem(model, (PHI @ MU).reshape(S * A, S))

# %%
# ## The agent
#
# Backward from the last step: the targets of step h are the largest values of step h + 1 in the next states, as drawn.
# A ridge regression on the features of the pairs seen so far has a Gaussian posterior, and one draw of it gives the
# values of step h.


class LinearAgent:
    """Randomised least-squares value iteration with known features."""

    def __init__(self, model, noise_sd=0.5, ridge=1.0):
        self.model, self.noise_sd, self.ridge = model, noise_sd, ridge

    def reset(self, rng):
        self.rng = rng
        self.gram = self.ridge * np.eye(D)
        self.sums = np.zeros((D, S))  # of the features, by next state
        self.step, self.policy = H, np.zeros((H, S), dtype=int)

    def act(self, state):
        if self.step == H:
            self.plan()
        self.step += 1
        return int(self.policy[self.step - 1, state])

    def observe(self, state, action, next_state, outcome, reward):
        features = PHI[state, action]
        self.gram += np.outer(features, features)
        self.sums[:, next_state] += features

    def plan(self):
        self.step, ahead = 0, np.zeros(S)
        root = self.noise_sd * np.linalg.cholesky(np.linalg.inv(self.gram))
        for h in reversed(range(H)):
            mean = np.linalg.solve(self.gram, self.sums @ ahead)
            q = REWARD + PHI @ (mean + root @ self.rng.standard_normal(D))
            self.policy[h], ahead = (
                q.argmax(axis=1),
                np.clip(q.max(axis=1), 0.0, H - h),
            )


# %%
# ## Side by side
#
# The conformance suite tests the class first. Then both agents meet the same worlds.
print(pr.testing.check_agent(LinearAgent, problem))


def counts(model):
    """Return posterior sampling with a Dirichlet posterior for each pair."""
    return pr.agents.ModelSamplingAgent(model, horizon=H)


agents = {"features": LinearAgent, "counts": counts}
runs = pr.simulate(
    problem,
    agents,
    episodes=60,
    episode_length=H,
    replications=8,
    episodic=True,
)
print(
    pr.simulation.regret_table(runs)
    .frame[["agent", "mean", "low", "high"]]
    .round(2)
    .to_string(index=False)
)

fig, axis = plt.subplots(figsize=(6, 3.5))
for agent, style in zip(agents, ("-", "--"), strict=True):
    axis.plot(
        runs.episode + 1,
        runs.regret.sel(agent=agent).mean("replication"),
        style,
        label=agent,
    )
axis.set(xlabel="episode", ylabel="cumulative regret (reward)")
axis.legend()
fig.tight_layout()

# %%
# ## Where exactness ends
#
# - The *regret* is exact: both policies are evaluated in the true model, without simulation.
# - The *Dirichlet posterior* is the exact posterior of its prior, and the plan of a draw is exact for that draw.
# - The *Gaussian posterior* is none of the model. Its targets are values that were drawn themselves, so their noise is
#   neither Gaussian nor independent, and `noise_sd` is a setting, not a fact. The values have no certificate: nothing
#   says how far `phi . theta` is from the value of any policy.
# - If the features are wrong, more data does not help: the regression tends to the best linear fit, and regret grows
#   linearly.
