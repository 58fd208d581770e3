"""Further entry points of ``_fuzz``: revenue, interactions, slates, builders, suites, experiments, commands."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _fuzz import Call
from _fuzz_calls import (
    _actions,
    _decided,
    _model,
    _of_draws,
    _problem,
    _regret,
    _steps,
    _uncertain,
    _walk,
    _within,
    _world,
    adds_up,
    anything,
    between,
    finite,
)
from _fuzz_decisions import _json
from _fuzz_rooms import CALLS as FIRST

import prudent as pr
from prudent import agents, bandits, envs, evaluation, planning, posteriors, risk, schedules, simulation, testing

SERVED = importlib.util.find_spec("msgspec") is not None
GYM = importlib.util.find_spec("gymnasium") is not None

# -- bandits --------------------------------------------------------------------------------------------------------


def _lived(kind: Any) -> Any:
    """Return a call that decides, learns, is read and saved."""

    def call(context: Any, arm: Any, reward: Any, more: Any, rewards: Any, **options: Any) -> Any:
        bandit = kind(**options)
        bandit.update(context, arm, reward).update(more, ["a", "b", "a"], rewards)
        bandit.explain(context), bandit.check(), repr(bandit)
        again = type(bandit).from_bytes(bandit.to_bytes())
        if not np.array_equal(again.propensities(context), bandit.propensities(context)):
            raise AssertionError("a bandit that was read again decides otherwise")
        return bandit.select(context)

    return call


def _of_kind(amount: bool = False, **options: Any) -> Any:
    def good(rng: np.random.Generator) -> dict[str, Any]:
        rewards = rng.exponential(5.0, 3) * rng.integers(0, 2, 3) if amount else rng.normal(size=3)
        reward = 2.5 if amount else 1.0
        return {
            "context": rng.normal(size=2),
            "arm": "a",
            "reward": reward,
            "more": rng.normal(size=(3, 2)),
            "rewards": rewards,
            **options,
        }

    return good


def _changed(name: Any, gone: Any, like: Any, context: Any, weights: Any, features: Any) -> Any:
    """Clicks whose arms and features change."""
    bandit = pr.LinearBandit(["a", "b"], features=["x", "y"], rewards="bernoulli", rng=1)
    log = {"x": [1.0, 0.5, 0.0], "y": [0.0, 1.0, 1.0], "arm": ["a", "b", "a"], "reward": [1.0, 0.0, 1.0]}
    bandit.refit(log, weights=weights)
    bandit.add_arm(name, like=like).remove_arm(gone).migrate(features)
    return bandit.select(context)


def _from_log(kind: Any) -> Any:
    def call(context: Any, arm: Any, reward: Any, **options: Any) -> Any:
        made = kind.from_log({"context": context, "arm": arm, "reward": reward}, rng=1, **options)
        made.check(), made.to_xarray()
        return made.predict(np.ones((1, 2)))

    return call


def _rows(rng: np.random.Generator) -> dict[str, Any]:
    return {"context": rng.normal(size=(6, 2)).tolist(), "arm": ["a", "b"] * 3, "reward": rng.normal(size=6).tolist()}


def _suggested(**log: Any) -> Any:
    """What ``check`` finds in a log."""
    bandit = pr.LinearBandit(["a", "b"], 2, rng=1)
    return str(bandit.check(log))


def _paid(live: Any, decision: Any, reward: Any) -> Any:
    return live.reward([each.id for each in decision] if isinstance(decision, list) else decision.id, reward)


def _slots(kind: str) -> Any:
    def call(context: Any, reward: Any, low: Any, since: Any, key: Any) -> Any:
        made = {
            "items": lambda: pr.SharedLinearBandit(2, rng=1, offsets=True),
            "hurdle": lambda: pr.LinearBandit(["a", "b"], features=["x", "y"], rewards="hurdle", rng=1),
            "sparse": lambda: bandits.SparseLinearBandit(["a", "b"], features=["x", "y"], rng=1),
            "auto": lambda: pr.LinearBandit(["a", "b"], features=["x", "y"], interactions="auto", rng=1),
        }[kind]()
        with tempfile.TemporaryDirectory() as folder:
            refused = None
            with pr.Journal(f"{folder}/j", made, synchronous="NORMAL", key=key) as live:
                items = ["a", "b"] if kind == "items" else None
                for step in (
                    lambda: _paid(live, live.select([context] * 2 if items else context, items), reward),
                    lambda: None if kind == "items" else live.set_limits(low),
                    lambda: live.forget(0.5),
                    lambda: live.export(f"{folder}/log.csv", since=since),
                ):
                    try:
                        step()
                    except pr.errors.PrudentError as error:
                        refused = error
            with pr.Journal(f"{folder}/j", key=key) as live:
                live.verify()
                shares = [row["propensity"] for row in live.rows()]
            if refused is not None:
                raise refused
            return shares

    return call


def _live(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "context": rng.normal(size=2),
        "reward": 1.5,
        "low": {"a": 0.1},
        "since": 1e9,
        "key": b"0123456789abcdef" if rng.random() < 0.5 else None,
    }


BANDITS = {
    "LinearBandit: revenue": Call(
        _lived(lambda **rest: pr.LinearBandit(["a", "b"], 2, rewards="hurdle", rng=1, **rest)),
        _of_kind(True, alpha=0.5, min_propensity=0.05, half_life=10.0),
        _decided,
        0.15,
    ),
    "LinearBandit: interactions": Call(
        _lived(lambda **rest: pr.LinearBandit(["a", "b"], 2, interactions="auto", rng=1, **rest)),
        _of_kind(alpha=0.5, noise_sd=1.0, prior_precision=1.0),
        _decided,
        0.1,
    ),
    "LinearBandit: by arm": Call(
        _lived(lambda **rest: pr.LinearBandit(["a", "b"], 2, noise="by arm", rng=1, **rest)),
        _of_kind(alpha=0.5, first_pulls=1, max_propensity=0.9),
        _decided,
        0.1,
        ("first_pulls",),
    ),
    "LinearBandit: exploration": Call(
        _lived(lambda **rest: pr.LinearBandit(["a", "b"], 2, rng=1, **rest)),
        _of_kind(exploration="auto", horizon=1000),
        _decided,
        0.1,
        ("horizon",),
    ),
    "LinearBandit: changes": Call(
        _changed,
        lambda rng: {
            "name": "c",
            "gone": "a",
            "like": ["b"],
            "context": rng.normal(size=3),
            "weights": [1.0, 0.5, 1.0],
            "features": ["x", "y", "z"],
        },
        _decided,
        0.05,
    ),
    "LinearBandit: log": Call(_from_log(pr.LinearBandit), lambda rng: _rows(rng) | {"noise_sd": 1.0}, finite, 0.05),
    "SharedLinearBandit: log": Call(
        _from_log(pr.SharedLinearBandit), lambda rng: _rows(rng) | {"noise_sd": 1.0}, finite, 0.05
    ),
    "SparseLinearBandit: log": Call(
        _from_log(bandits.SparseLinearBandit), lambda rng: _rows(rng) | {"noise_sd": 1.0}, finite, 0.05
    ),
    "LinearBandit: check": Call(
        _suggested,
        lambda rng: _rows(rng) | {"time": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "reward_time": [2.0] * 6},
        anything,
        0.05,
    ),
    "SharedLinearBandit: clicks": Call(
        lambda context, reward, features, **options: (
            pr.SharedLinearBandit(2, rewards="bernoulli", rng=1, **options)
            .update(context, "a", reward)
            .select(features, ["a", "b", "c"])
        ),
        lambda rng: {
            "context": rng.normal(size=2),
            "reward": 1.0,
            "features": rng.normal(size=(3, 2)),
            "alpha": 0.5,
            "draws": str(rng.choice(["independent", "joint"])),
            "half_life": 5.0,
        },
        _decided,
        0.1,
    ),
    **{
        f"Journal: {kind}": Call(_slots(kind), _live, lambda given, found: between(0.0, 1.0, found), 0.015)
        for kind in ("items", "hurdle", "sparse", "auto")
    },
}


# -- logs -----------------------------------------------------------------------------------------------------------


def _slate_rows(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "slate": np.repeat(np.arange(10), 2),
        "position": np.tile([0, 1], 10),
        "reward": rng.random(20),
        "propensity": rng.uniform(0.2, 0.8, 20),
        "target": rng.uniform(0.2, 0.8, 20),
    }


def _slates(confidence: Any, folds: Any, **log: Any) -> Any:
    return evaluation.off_policy_slates(log, confidence=confidence, folds=folds)


def _ordered(given: dict[str, Any], found: Any) -> str:
    shown = found.table[["estimate", "low", "high", "ess"]].to_numpy(dtype=float)
    if not np.isfinite(shown).all():
        return f"not finite: {found.table.to_dict()}"
    return "" if ((shown[:, 1] <= shown[:, 0]) & (shown[:, 0] <= shown[:, 2])).all() else "outside of its interval"


def _learned(kinds: Any, interval: Any, folds: Any, max_weight: Any, missing: Any, **log: Any) -> Any:
    return pr.learn_policy(
        log, kinds=kinds, interval=interval, folds=folds, max_weight=max_weight, missing_reward=missing
    )


ADAPTED = importlib.util.find_spec("sklearn") is not None


class _Greedy:
    """A learner as in coba, whose numbers may be of any kind."""

    def __init__(self, chance: Any) -> None:
        self.chance = chance

    def score(self, context: Any, actions: Any, action: Any) -> Any:
        return self.chance

    def learn(self, *_: Any) -> None:
        return None


def _told_reward(made: Any, context: Any, reward: Any) -> Any:
    made.update(context, made.arms[0], reward)
    return made.propensities(context)


LOGS = {
    "off_policy_slates": Call(
        _slates, lambda rng: _slate_rows(rng) | {"confidence": 0.9, "folds": 2}, _ordered, 0.1, ("folds",)
    ),
    "balanced_propensities": Call(
        lambda first, second, **log: evaluation.balanced_propensities(log, {"old": first, "new": second}),
        lambda rng: {
            "arm": ["a", "b"] * 5,
            "reward": rng.random(10).tolist(),
            "logger": ["old"] * 4 + ["new"] * 6,
            "first": {"a": 0.5, "b": 0.5},
            "second": {"a": 0.9, "b": 0.1},
        },
        lambda given, found: between(0.0, 1.0, found),
        0.1,
    ),
    "learn_policy: options": Call(
        _learned,
        lambda rng: {
            "reward": rng.random(100).tolist(),
            "propensity": [0.5] * 100,
            "arm": ["a", "b"] * 50,
            "context": rng.random((100, 2)).tolist(),
            "kinds": ["arm", "split"],
            "interval": str(rng.choice(["bernstein", "normal"])),
            "folds": 3,
            "max_weight": 5.0,
            "missing": 0.0,
        },
        lambda given, found: "" if found.low <= found.value <= found.high else "outside of its interval",
        0.03,
        ("folds",),
    ),
    "adapt_bandit": Call(
        lambda chance, arms, context, reward: _told_reward(
            simulation.adapt_bandit(_Greedy(chance), arms, rng=1), context, reward
        ),
        lambda rng: {"chance": 0.7, "arms": ["a", "b"], "context": rng.normal(size=2), "reward": 1.0},
        lambda given, found: adds_up(found),
        0.1,
    ),
}


# -- models, plans and what solutions say ---------------------------------------------------------------------------


def _dynamics(next_state: Any, reward: Any, states: Any, noise: Any, discount: Any, terminal: Any) -> Any:
    model = pr.UncertainMDP.from_dynamics(
        lambda state, action, drawn: (state if isinstance(drawn, str) else next_state, reward),
        states,
        ["go"],
        noise,
        discount,
        terminal=terminal,
    )
    return model.mdp(pr.DirichletPosterior(model.prior()).mean()).dense()


def _entries(**given: Any) -> Any:
    model = pr.UncertainMDP.from_entries(**given)
    return model.mdp(pr.DirichletPosterior(model.prior()).mean()).dense()


def _counted(state: Any, action: Any, next_state: Any, prior: Any, indices: Any) -> Any:
    model = _model([[0.0, 1.0], [1.0, 0.0]], 0.9)
    return model.count({"state": state, "action": action, "next_state": next_state}, prior, indices=indices)


def _limited(cost: Any, bound: Any, level: Any, draws: Any, start: Any, **given: Any) -> Any:
    limit = planning.AtMost(bound, pr.CVaR(level))
    return _problem(**given).solve(costs={"c": cost}, at_most={"c": limit}, draws=draws, rng=1, start=start)


def _told(observation: Any, time: Any, name: Any, form: Any, max_rules: Any, **given: Any) -> Any:
    """Everything that a solution tells of itself, into files."""
    found = pr.solve(pr.MDP(**given))
    with tempfile.TemporaryDirectory() as folder:
        found.simplify(max_rules, form=form, draws=5)
        found.to_csv(Path(folder) / "policy.csv")
        text = found.report(Path(folder) / "page.html", name=name, unit=name).read_text()
        if "<script>alert" in text:
            raise AssertionError("a script of a name")
    found.to_xarray(), found.plot(), repr(found), str(found)
    found.policy_at(time), found.explain(observation)
    return found.value


def _changed_model(discount: Any, exclude: Any, reward: Any, transition: Any, other: Any) -> Any:
    mdp = pr.MDP(transition, reward, 0.9).with_discount(discount).without(exclude)
    known = pr.UncertainMDP.from_mdp(mdp)
    solved = pr.solve(mdp, initial_value=other)
    solved.differs_from(pr.solve(pr.MDP(transition, reward, 0.5).without(exclude)))
    return [*np.ravel(known.prior()), *np.ravel(solved.value)]


MODELS = {
    "UncertainMDP: dynamics": Call(
        _dynamics,
        lambda rng: {
            "next_state": "b",
            "reward": 1.0,
            "states": ["a", "b"],
            "noise": ["stay", 1],
            "discount": 0.9,
            "terminal": ["b"],
        },
        lambda given, found: between(0.0, 1.0, found.sum(axis=-1)),
        0.1,
    ),
    "UncertainMDP: entries": Call(
        _entries,
        lambda rng: {
            "source": [[0, 1], [2, 3]],
            "pair": [0, 0, 1, 2, 3, 3],
            "outcome": [0, 1, 0, 0, 0, 1],
            "next_state": [0, 1, 0, 1, 0, 1],
            "reward": rng.random(6),
            "discount": 0.9,
        },
        lambda given, found: adds_up(found[found.any(axis=-1)]),
        0.1,
    ),
    "UncertainMDP: count": Call(
        _counted,
        lambda rng: {
            "state": [0, 1, 0],
            "action": [1, 0, 1],
            "next_state": [1, 1, 0],
            "prior": np.ones((4, 2)),
            "indices": True,
        },
        finite,
        0.1,
    ),
    "UncertainMDP: table": Call(
        lambda rows, discount: pr.UncertainMDP.from_table(rows, discount).prior(),
        lambda rng: {
            "rows": {
                "state": ["a", "a", "b"],
                "action": ["go", "go", "go"],
                "source": ["s", "s", "t"],
                "outcome": ["up", "down", "up"],
                "next_state": ["a", "b", "a"],
                "reward": [1.0, 0.0, 2.0],
            },
            "discount": 0.9,
        },
        finite,
        0.1,
    ),
    "solve: tail of costs": Call(
        _limited,
        lambda rng: (
            _uncertain(rng)
            | {"alpha": 0.0, "cost": rng.random((2, 2)), "bound": 50.0, "level": 0.5, "draws": 5, "start": 0}
        ),
        _within,
        0.03,
        ("draws",),
    ),
    "solve: tell": Call(
        _told,
        lambda rng: (
            _world(rng)
            | {
                "discount": 0.9,
                "observation": 0,
                "time": 0,
                "name": "<script>alert(1)</script>",
                "form": "list",
                "max_rules": 2,
            }
        ),
        finite,
        0.003,
        ("max_rules",),
    ),
    "MDP: changes": Call(
        _changed_model,
        lambda rng: {
            "discount": 0.8,
            "exclude": [(0, 1)],
            "reward": rng.random((2, 2)),
            "transition": rng.dirichlet([1.0, 1.0], (2, 2)),
            "other": [0.0, 1.0],
        },
        finite,
        0.1,
    ),
    "risk.Mean": Call(lambda draws: risk.Mean()(draws), lambda rng: {"draws": rng.normal(size=5)}, _of_draws, 0.1),
    "risk.WorstCase": Call(
        lambda draws: risk.WorstCase()(draws), lambda rng: {"draws": rng.normal(size=5)}, _of_draws, 0.1
    ),
    "sample_size_is_exact": Call(
        lambda alpha: risk.sample_size_is_exact(alpha), lambda rng: {"alpha": 0.5}, anything, 0.05
    ),
    "FunctionSchedule": Call(
        lambda level: schedules.FunctionSchedule(lambda t, v: level).level(1, [1.0]),
        lambda rng: {"level": 0.5},
        lambda given, found: between(-1.0, 1.0, found),
        0.05,
    ),
}


# -- agents, worlds and suites --------------------------------------------------------------------------------------


def _sampling(reward: Any, discount: Any, alpha: Any, state: Any, action: Any, next_state: Any, **options: Any) -> Any:
    agent = agents.ModelSamplingAgent(_model(reward, discount), alpha=alpha, **options)
    agent.reset(np.random.default_rng(1))
    first = agent.act(state)
    agent.observe(state, action, next_state)
    return [first, agent.act(next_state)]


def _drift(at: Any, noise_sd: Any, horizon: Any) -> Any:
    world = envs.drifting(envs.gaussian_bandit(3), envs.bounded_bandit(3, noise_sd), at=at)
    return simulation.simulate_bandit(world, [bandits.brps_cmab(0.5)], horizon=horizon, rng=1)


def _stepped(p_h: Any, action: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="gymnasium")
        env = envs.TabularEnv(envs.frozen_lake(p_h))
        env.reset(seed=3)
        _, reward, *_ = env.step(action)
    return reward


def _gym_model(table: Any, discount: Any) -> Any:
    """A table of steps as Gymnasium's toy texts have it."""
    import gymnasium

    class World(gymnasium.Env):  # type: ignore[type-arg, misc]
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(1)
        P = table

    return pr.MDP.from_gymnasium(World(), discount).dense()


AGENTS = {
    "ModelSamplingAgent": Call(
        _sampling,
        lambda rng: _walk(rng) | {"draws": 4, "episode_length": 3, "horizon": 5},
        _actions,
        0.05,
        ("draws", "episode_length", "horizon"),
    ),
    "drifting": Call(_drift, lambda rng: {"at": 3, "noise_sd": 0.5, "horizon": 6}, _regret, 0.02, ("horizon",)),
    "check_posterior": Call(
        lambda counts, source, outcome, draws: testing.check_posterior(
            lambda: pr.DirichletPosterior(counts), [(source, outcome)], draws=draws
        ),
        lambda rng: {"counts": rng.exponential(1.0, (2, 3)) + 0.1, "source": 1, "outcome": 2, "draws": 2000},
        anything,
        0.005,
        ("draws",),
    ),
    "check_agent": Call(
        lambda steps, rng: testing.check_agent(pr.PosteriorSamplingAgent, envs.river_swim(3), steps=steps, rng=rng),
        lambda rng: {"steps": 5, "rng": 1},
        anything,
        0.001,
        ("steps",),
    ),
    "check_environment": Call(
        lambda steps, draws, n_states: testing.check_environment(
            lambda: envs.river_swim(n_states), steps=steps, draws=draws
        ),
        lambda rng: {"steps": 10, "draws": 200, "n_states": 3},
        anything,
        0.002,
        ("steps", "draws", "n_states"),
    ),
    "simulate: options": Call(
        lambda alphas, quantiles, br_episodes, start, record, keep, prior: pr.simulate(
            envs.river_swim(3),
            [pr.brps_rl(0.5)],
            episodes=3,
            replications=2,
            episode_length=3,
            alphas=alphas,
            quantiles=quantiles,
            br_episodes=br_episodes,
            start=start,
            record=record,
            keep=keep,
            prior=prior,
        ),
        lambda rng: {
            "alphas": [0.0, 0.5],
            "quantiles": [0.1, 0.9],
            "br_episodes": [0, 2],
            "start": 0,
            "record": [],
            "keep": "runs",
            "prior": None,
        },
        _regret,
        0.02,
    ),
    **(
        {
            "TabularEnv": Call(
                _stepped,
                lambda rng: {"p_h": 0.2, "action": 1},
                lambda given, found: finite(given, found),
                0.03,
            ),
            "MDP: gymnasium": Call(
                _gym_model,
                lambda rng: {
                    "table": {0: {0: [(1.0, 1, 1.0, False)]}, 1: {0: [(0.5, 0, 0.0, False), (0.5, 1, 2.0, True)]}},
                    "discount": 0.9,
                },
                anything,
                0.05,
            ),
        }
        if GYM
        else {}
    ),
    "NormalPosterior: rewards": Call(
        lambda mean, sd, noise_sd, n: posteriors.NormalPosterior(mean, sd, noise_sd).sample(n, 1),
        lambda rng: {"mean": rng.normal(size=2), "sd": [1.0, 2.0], "noise_sd": 1.0, "n": 3},
        finite,
        0.1,
        ("n",),
    ),
}


# -- experiments of the service, and commands -----------------------------------------------------------------------


def _experiment(**given: Any) -> Any:
    from prudent.service.bodies import reader
    from prudent.service.experiment_specs import ExperimentSpec

    spec = reader(ExperimentSpec)(_json(given))
    spec.check(["a", "b"])
    bandit = pr.LinearBandit(["a", "b"], 2, rng=1)
    bandit.set_limits(*spec.limits(bandit.arms))
    if spec.holdout is not None:
        spec.holdout.bandit(bandit).propensities([1.0, 2.0])
    return bandit.propensities([1.0, 2.0])


def _commanded(discount: Any, alpha: Any, start: Any, command: Any, state: Any, reward: Any) -> Any:
    """A command must end in an exit code and in words, without a traceback or an escape sequence of a name."""
    from typer.testing import CliRunner

    from prudent.cli.main import app

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        rows = [",".join(map(str, row)) for row in zip(*_cells(state, reward), strict=False)]
        path.write_text("\n".join(["episode,step,state,action,reward", *rows]), errors="replace")
        words = [str(command), str(path), "--discount", str(discount), "--alpha", str(alpha), "--start", str(start)]
        words += ["--out", str(Path(folder) / "out")] if str(command) == "check" else []
        found = CliRunner().invoke(app, [word.replace("\0", "0") for word in words])
    error = found.exception
    if error is not None and not isinstance(error, SystemExit):
        raise error
    if found.exit_code not in (0, 1, 2) or "Traceback" in found.output:
        raise AssertionError(f"exit code {found.exit_code}: {found.output[-300:]}")
    return found.output


def _cells(state: Any, reward: Any) -> tuple[Any, ...]:
    steps = _steps(np.random.default_rng(1))
    cells = [np.atleast_1d(np.asarray(each, dtype=object)).tolist() for each in (state, reward)]
    return steps["episode"], steps["step"], cells[0], steps["action"], cells[1]


def _printed(given: dict[str, Any], found: str) -> str:
    return "an escape sequence" if "\x1b[31mred" in found else ""


SERVICE = {
    "experiments": Call(
        _experiment,
        lambda rng: {
            "unit": "user",
            "ramp": 0.1,
            "challenger": {"arms": ["a", "b"], "dim": 2},
            "holdout": {"share": 0.1, "probabilities": {"a": 0.5, "b": 0.5}},
            "control": "a",
            "control_share": 0.2,
            "confidence": 0.9,
            "planned": 100,
            "reward_range": [0.0, 1.0],
            "guardrails": {"cost": {"range": [0.0, 1.0], "at_most": 0.5}},
        },
        lambda given, found: adds_up(found),
        0.1,
        ("planned",),
    ),
}

COMMANDS = {
    "commands": Call(
        _commanded,
        lambda rng: {
            "discount": 0.9,
            "alpha": 0.5,
            "start": "a",
            "command": str(rng.choice(["explain", "next-data", "check"])),
            "state": ["a", "b", "\x1b[31mred", "a"] * 6,
            "reward": rng.random(24).tolist(),
        },
        _printed,
        0.002,
    ),
}

CALLS: dict[str, Call] = FIRST | BANDITS | LOGS | MODELS | AGENTS | (SERVICE if SERVED else {}) | COMMANDS
