"""Further entry points of ``_fuzz``: plans, limits, saved decisions, studies, episodes, journals, clients and files."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from _fuzz import Call
from _fuzz_calls import CALLS as FIRST
from _fuzz_calls import (
    _array,
    _dataset,
    _model,
    _problem,
    _profile,
    _rows,
    _steps,
    _table,
    _uncertain,
    _within,
    _world,
    adds_up,
    anything,
    between,
    finite,
)

import prudent as pr
from prudent import analysis, envs, estimation, planning, posteriors, simulation
from prudent.errors import JournalError, PrudentError

SERVED = importlib.util.find_spec("msgspec") is not None

# -- plans that learn, averages, limits, and what a solution answers -----------------------------------------------


def _learning(horizon: Any, start: Any, state: Any, seen: Any, time: Any, **given: Any) -> Any:
    plan = _problem(**given).solve(learning=True, horizon=horizon, start=start)
    plan.to_xarray(), plan.to_pandas(), str(plan)
    now = _array(given["counts"]) + seen if isinstance(seen, float) else seen
    plan.act(state, now, time)
    return plan, plan.value_at(state, now, time)


def _planned(given: dict[str, Any], found: Any) -> str:
    plan, after = found
    reward, steps, slack = _array(given["reward"]), float(plan.horizon), 2.0 * plan.error_bound
    low, high = min(steps * reward.min(), 0.0) - slack, max(steps * reward.max(), 0.0) + slack
    known = plan.start > 0.0
    wrong = between(low, high, plan.value[known]) or between(low, high, plan.fixed_value[known])
    return wrong or between(low, high, after) or between(0.0, 1.0, plan.action_shares)


def _gain(given: dict[str, Any], found: Any) -> str:
    reward = _array(given["reward"])
    slack = 2.0 * found.error_bound
    return between(reward.min() - slack, reward.max() + slack, found.gain)


def _kept(given: dict[str, Any], found: Any) -> str:
    limit, held = given["at_most"], found.constraint
    size = max(1.0, abs(limit), np.abs(_array(given["cost"])).max() / (1.0 - float(given["discount"])))
    if not held.cost["c"] <= limit + 1e-6 * size:
        return f"costs {held.cost}, at most {limit} asked"
    return _within(given, found)


def _asked(state: Any, actions: Any, **given: Any) -> Any:
    found = pr.solve(pr.MDP(**given))
    found.explain(state), found.runners_up(), found.to_json(), found.to_pandas()
    return np.append(np.ravel(found.q_of(actions)), np.ravel(found.q))


def _timed(time: Any, state: Any, horizon: Any, **given: Any) -> Any:
    found = pr.solve(pr.MDP(**given), horizon=horizon)
    found.explain(state, time), found.policy_at(time)
    return found.at(time).value


def _simplified(max_rules: Any, columns: Any, start: Any, draws: Any, **given: Any) -> Any:
    found = _problem(**given).solve().simplify(max_rules, columns, start=start, draws=draws)
    found.to_pandas(), found.record(), repr(found)
    return found


def _seen(counts: Any) -> Any:
    """Return a posterior of data beyond a small prior."""
    return pr.DirichletPosterior(counts, prior=np.full((4, 2), 0.01))


def _close(baseline: Any, min_visits: Any, epsilon: Any, exclude: Any, **given: Any) -> Any:
    given["counts"] = _seen(given["counts"])
    return _problem(**given).solve(baseline=baseline, min_visits=min_visits, epsilon=epsilon, exclude=exclude)


def _unknown_rewards(mean: Any, sd: Any, counts: Any, discount: Any, alpha: Any) -> Any:
    rewards = posteriors.NormalPosterior(mean, sd, 1.0)
    return pr.BayesianRiskMDP(_model(np.zeros((2, 2)), discount), counts, alpha, reward_posterior=rewards).solve()


PLANS = {
    "BayesianRiskMDP: learning": Call(
        _learning,
        lambda rng: _uncertain(rng) | {"alpha": 0.5, "horizon": 2, "start": 0, "state": 0, "seen": 0.0, "time": 0},
        _planned,
        0.08,
        ("horizon",),
    ),
    "PosteriorRisk": Call(
        lambda level, draws, start, **given: pr.solve(
            _problem(**given), objective=pr.PosteriorRisk(pr.CVaR(level)), start=start, draws=draws, rng=0
        ),
        lambda rng: _uncertain(rng) | {"alpha": 0.0, "level": 0.5, "draws": 5, "start": 0},
        lambda given, found: finite(given, [found.objective_value, found.upper_bound]),
        0.03,
        ("draws",),
    ),
    "solve: average": Call(
        lambda **given: pr.solve(pr.MDP(**given), objective="average"), lambda rng: _world(rng), _gain, 0.15
    ),
    "BayesianRiskMDP: average": Call(
        lambda **given: _problem(**given).solve(objective="average"),
        lambda rng: _uncertain(rng) | {"alpha": 0.7},
        _gain,
        0.1,
    ),
    "evaluate: average": Call(
        lambda policy, **given: pr.evaluate(pr.MDP(**given), policy, objective="average"),
        lambda rng: _world(rng) | {"policy": [0, 1]},
        _gain,
        0.1,
    ),
    "solve: costs": Call(
        lambda cost, at_most, start, **given: pr.solve(
            pr.MDP(**given), costs={"c": cost}, at_most={"c": at_most}, start=start
        ),
        lambda rng: _world(rng) | {"cost": rng.random((2, 2)), "at_most": 1000.0, "start": 0},
        _kept,
        0.1,
    ),
    "solve: questions": Call(_asked, lambda rng: _world(rng) | {"state": 0, "actions": [0, 1]}, finite, 0.1),
    "solve: times": Call(
        _timed, lambda rng: _world(rng) | {"horizon": 3, "time": 1, "state": 0}, finite, 0.1, ("horizon",)
    ),
    "solve: simplify": Call(
        _simplified,
        lambda rng: (
            _uncertain(rng) | {"alpha": 0.5, "max_rules": 2, "columns": {"x": [0.0, 1.0]}, "start": 0, "draws": 5}
        ),
        lambda given, found: finite(given, found.value),
        0.02,
        ("max_rules", "draws"),
    ),
    "BayesianRiskMDP: close": Call(
        _close,
        lambda rng: (
            _uncertain(rng) | {"alpha": 0.5, "baseline": [0, 1], "min_visits": 3.0, "epsilon": 0.1, "exclude": [(0, 1)]}
        ),
        _within,
        0.05,
    ),
    "BayesianRiskMDP: rewards": Call(
        _unknown_rewards,
        lambda rng: {
            "mean": rng.random((2, 2)),
            "sd": rng.random((2, 2)) + 0.1,
            "counts": 0.1 + rng.exponential(2.0, (4, 2)),
            "discount": 0.9,
            "alpha": 0.5,
        },
        lambda given, found: finite(given, found.value),
        0.03,
    ),
}


# -- saved decisions, comparisons and studies ----------------------------------------------------------------------


def _compared(later: Any, draws: Any, confidence: Any, simulations: Any, start: Any, **given: Any) -> Any:
    reward, discount = given["reward"], given["discount"]
    model, posterior = _model(reward, discount), pr.DirichletPosterior(given["counts"])
    with tempfile.TemporaryDirectory() as folder:
        found = pr.BayesianRiskMDP(model, posterior, 0.5).solve()
        pr.save(folder, found, model=model, posterior=posterior)
        options: dict[str, Any] = {"draws": draws, "confidence": confidence, "simulations": simulations}
        made = analysis.compare(folder, model, pr.DirichletPosterior(later), start=start, **options)
    made.to_pandas(), made.lines(), repr(made)
    return made


def _chance(given: dict[str, Any], found: Any) -> str:
    unknown = np.isnan(found.p_value)  # nothing was observed
    return ("" if unknown else between(0.0, 1.0, found.p_value)) or between(0.0, 1.0, found.agreement)


def _studied(alphas: Any, start: Any, draws: Any, observations: Any, name: Any, unit: Any, **given: Any) -> Any:
    log, options = _table(given)
    model, posterior = pr.from_log(log, **options)
    found = analysis.study_log(model, posterior, alphas, start=start, draws=draws, observations=observations)
    with tempfile.TemporaryDirectory() as folder:
        page = found.report(Path(folder) / "page.html", name=name, unit=unit, settings={"name": name}).read_text()
    found.record()
    return page


def _paged(given: dict[str, Any], found: Any) -> str:
    return "a script of a name" if "<script>alert" in found else ""


def _profiled(**given: Any) -> Any:
    reward, discount, counts = (given.pop(name) for name in ("reward", "discount", "counts"))
    return pr.risk_profile(_model(reward, discount), _seen(counts), rng=1, **given)


def _levels(given: dict[str, Any], found: Any) -> str:
    """Require finite numbers of the levels; today has no risk value."""
    return _profile(given, found) if found.today is None else finite(given, found.by_level()["mean"])


STUDIES = {
    "compare": Call(
        _compared,
        lambda rng: (
            _uncertain(rng)
            | {
                "later": 0.2 + rng.exponential(3.0, (4, 2)),
                "draws": 4,
                "confidence": 0.9,
                "simulations": 9,
                "start": 0,
            }
        ),
        _chance,
        0.05,
        ("draws", "simulations"),
    ),
    "study_log": Call(
        _studied,
        lambda rng: (
            _steps(rng)
            | {
                "min_count": 1,
                "alphas": [0.0, 0.5],
                "start": "a",
                "draws": 4,
                "observations": 2,
                "name": "<script>alert(1)</script>",
                "unit": "=euro",
            }
        ),
        _paged,
        0.004,
        ("draws", "observations"),
    ),
    "risk_profile: close": Call(
        _profiled,
        lambda rng: _uncertain(rng) | {"alphas": [0.0, 0.9], "draws": 4, "baseline": [0, 1], "epsilon": 0.2},
        _levels,
        0.03,
        ("draws",),
    ),
    "risk_profile: horizon": Call(
        _profiled,
        lambda rng: _uncertain(rng) | {"alphas": [0.0, 0.9], "draws": 4, "horizon": 2, "terminal_value": [0.0, 1.0]},
        _profile,
        0.03,
        ("draws", "horizon"),
    ),
    "posterior_returns: horizon": Call(
        lambda reward, discount, counts, **given: pr.posterior_returns(
            _model(reward, discount), pr.DirichletPosterior(counts), [0, 1], rng=1, **given
        ),
        lambda rng: _uncertain(rng) | {"draws": 4, "horizon": 2, "start": {0: 0.5, 1: 0.5}, "quantiles": [0.1, 0.5]},
        lambda given, found: "" if given["horizon"] is not None else _dataset(given, found),
        0.05,
        ("draws", "horizon"),
    ),
    "log_policy": Call(
        lambda reward, discount, counts, smoothing: planning.log_policy(
            _model(reward, discount), _seen(counts), smoothing
        ),
        lambda rng: _uncertain(rng) | {"smoothing": 0.1},
        lambda given, found: adds_up(found),
        0.1,
    ),
}


# -- logs of episodes, and options of logs -------------------------------------------------------------------------


def _episodes(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "episode": np.repeat(np.arange(12), 3),
        "step": np.tile(np.arange(3), 12),
        "state": ["a", "b", "c"] * 12,
        "action": [str(one) for one in rng.choice(["x", "y"], 36)],
        "reward": rng.random(36),
        "propensity": [0.5] * 36,
    }


def _of_episodes(target: Any, **given: Any) -> Any:
    log = {name: given.pop(name) for name in ("episode", "step", "state", "action", "reward", "propensity")}
    return pr.off_policy(log, target, draws=100, **given)


def _estimated(given: dict[str, Any], found: Any) -> str:
    table = found.table[found.table["answers"]] if "answers" in found.table else found.table
    shown = table[["estimate", "low", "high"]].to_numpy(dtype=float)
    if not np.isfinite(shown).all():
        return f"not finite: {table.to_dict()}"
    return "" if (shown[:, 1] <= shown[:, 2]).all() else "an interval upside down"


def _optional(**given: Any) -> Any:
    log, options = _table(given)
    for name in ("weight", "hours"):
        if name in options:
            log[name] = options.pop(name)
    model, posterior = pr.from_log(log, **options)
    return pr.BayesianRiskMDP(model, posterior, 0.5).solve().value


def _chosen_states(x: Any, reward: Any, action: Any, **options: Any) -> Any:
    log = {"x": x, "reward": reward, "action": action, "episode": [0] * 10 + [1] * 10, "step": [*range(10)] * 2}
    candidates = {"two": pr.StateMap(["x"], n_states=2, min_rows=2)}
    return estimation.choose_states(log, ["x"], candidates=candidates, alphas=[0.0], repeats=1, **options)


def _walked(gym: Any, steps: Any, discount: Any) -> Any:
    problem = envs.random_model(4, 2, branching=gym, discount=discount, rng=1)
    return problem.model.mdp(problem.theta).dense()


LOGS = {
    "off_policy: episodes": Call(
        _of_episodes, lambda rng: _episodes(rng) | {"target": "x", "discount": 0.9}, _estimated, 0.02
    ),
    "off_policy: episodes, options": Call(
        _of_episodes,
        lambda rng: (
            _episodes(rng)
            | {
                "target": {"a": "x", "b": "y", "c": "x"},
                "discount": 1.0,
                "markov": True,
                "horizon": 2,
                "confidence": 0.9,
                "interval": str(rng.choice(["bootstrap", "normal"])),
                "return_range": [0.0, 3.0],
                "quantiles": [0.1, 0.9],
                "tail_alpha": 0.5,
                "folds": 2,
            }
        ),
        _estimated,
        0.02,
        ("horizon", "folds"),
    ),
    "off_policy: options": Call(
        lambda reward, propensity, arm, target, **options: pr.off_policy(
            {"arm": arm, "reward": reward, "propensity": propensity}, target, **options
        ),
        lambda rng: (
            _rows(rng)
            | {
                "target": "uniform",
                "interval": str(rng.choice(["bernstein", "normal"])),
                "max_weight": 10.0,
                "switch": 3.0,
                "missing_reward": 0.5,
                "folds": 2,
                "block": 7,
            }
        ),
        anything,
        0.02,
        ("folds", "block"),
    ),
    "from_log: options": Call(
        _optional,
        lambda rng: (
            _steps(rng)
            | {
                "terminal": [],
                "prior": 0.5,
                "support": str(rng.choice(["state", "action", "all"])),
                "rewards": "mean",
                "gaps": "cut",
                "truncated": "drop",
            }
        ),
        finite,
        0.03,
    ),
    "choose_states": Call(
        _chosen_states,
        lambda rng: {
            "x": rng.random(20),
            "reward": rng.random(20),
            "action": ["a", "b"] * 10,
            "discount": 0.9,
            "min_count": 1,
            "folds": 2,
        },
        anything,
        0.002,
        ("folds",),
    ),
    "random_model": Call(
        _walked,
        lambda rng: {"gym": 2, "steps": 3, "discount": 0.9},
        lambda given, found: adds_up(found),
        0.03,
        ("gym",),
    ),
    "regret_table": Call(
        lambda confidence, baseline: simulation.regret_table(
            pr.simulate(
                envs.river_swim(3), {"a": pr.brps_rl(0.0), "b": pr.brps_rl(0.5)}, episodes=2, replications=3, rng=1
            ),
            confidence=confidence,
            baseline=baseline,
        ).to_pandas(),
        lambda rng: {"confidence": 0.9, "baseline": "a"},
        anything,
        0.01,
    ),
}


# -- journals, clients and bodies ----------------------------------------------------------------------------------


def _live(folder: str, **options: Any) -> Any:
    made = pr.LinearBandit(["a", "b", "c"], dim=2, rng=1, noise_sd=1.0)
    return pr.Journal(f"{folder}/j", made, synchronous="NORMAL", **options)


def _right(given: dict[str, Any], found: Any) -> str:
    return between(0.0, 1.0, found)


def _audited(live: Any) -> Any:
    live.verify()
    return [row["propensity"] for row in live.rows()]


def _kept_journal(window: Any, default: Any, snapshot_every: Any, context: Any, arms: Any, key: Any, note: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        with _live(folder, window=window, default=default, snapshot_every=snapshot_every) as live:
            decision = live.select(context, arms, key=key, note=note)
            live.explain(decision.id), live.pending(), live.to_pandas(), live.about()
            live.expire()
        with pr.Journal(f"{folder}/j") as live:
            return _audited(live)


def _changed_journal(context: Any, arm: Any, propensity: Any, reward: Any, name: Any, features: Any, when: Any) -> Any:
    """Every change must leave a journal that opens and verifies, whether it is refused or not."""
    with tempfile.TemporaryDirectory() as folder:
        refused = None
        with _live(folder, window=60.0) as live:
            for change in (
                lambda: live.record(context, arm, propensity, reward, note={"who": arm}),
                lambda: live.add_arm(name),
                lambda: live.name_features(features),
                lambda: live.remove_arm(arm),
                lambda: live.erase({"who": arm}),
                lambda: live.as_of(when),
                lambda: live.compact(when),
                lambda: live.expire(when),
            ):
                try:
                    change()
                except PrudentError as error:
                    refused = error
        with pr.Journal(f"{folder}/j") as live:
            _audited(live)
    if refused is not None:
        raise refused
    return 0.5


def _through(context: Any, arms: Any, top: Any, key: Any, note: Any, slot: Any, reward: Any, more: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, _live(folder) as live, pr.Client({"home": live}) as client:
        decision = client.decide(slot, context, arms, top, key=key, note=note)
        client.reward(slot, decision.id, reward)
        for one in client.decide_many(slot, more):
            if isinstance(one, PrudentError):
                raise one
        client.reward_many(slot, [(decision.id, reward)])
        return _audited(live)


def _awaited(context: Any, arms: Any, key: Any, note: Any, slot: Any, reward: Any) -> Any:
    async def run(live: Any) -> Any:
        async with pr.AsyncClient(live) as client:
            decision = await client.decide(slot, context, arms, key=key, note=note)
            await client.reward(slot, decision.id, reward)

    with tempfile.TemporaryDirectory() as folder, _live(folder) as live:
        asyncio.run(run(live))
        return _audited(live)


def _rewards_of(id: Any, reward: Any, pairs: Any, slot: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, _live(folder) as live, pr.Client(live) as client:
        client.decide("home", [1.0, 2.0], key="k")
        client.reward(slot, id, reward)
        client.reward_many(slot, pairs)
        return _audited(live)


def _unanswered(target: Any, timeout: Any, retries: Any) -> Any:
    """Nobody answers at this address, which the client must say soon."""
    with pr.Client(target, timeout=timeout, retries=retries) as client, suppress(JournalError):
        client.decide("home", [1.0])
    return 0.5


def _id(rng: np.random.Generator) -> str:
    return str(rng.choice(["1-0000000000000001", "x", "0", ""]))


JOURNALS = {
    "Journal: options": Call(
        _kept_journal,
        lambda rng: {
            "window": 60.0,
            "default": 0.0,
            "snapshot_every": 1,
            "context": rng.normal(size=2),
            "arms": ["a", "b"],
            "key": "k",
            "note": {"who": "me"},
        },
        _right,
        0.05,
        ("snapshot_every",),
    ),
    "Journal: changes": Call(
        _changed_journal,
        lambda rng: {
            "context": rng.normal(size=2),
            "arm": "a",
            "propensity": 0.5,
            "reward": 1.0,
            "name": "d",
            "features": ["x", "y"],
            "when": 1e9,
        },
        _right,
        0.05,
    ),
    "Client": Call(
        _through,
        lambda rng: {
            "context": rng.normal(size=2),
            "arms": ["a", "b"],
            "top": None,
            "key": "k",
            "note": {"who": "me"},
            "slot": "home",
            "reward": 1.0,
            "more": [{"context": [1.0, 2.0]}, {"context": [1.0, 2.0], "arms": ["a"]}],
        },
        _right,
        0.05,
    ),
    "Client: rewards": Call(
        _rewards_of,
        lambda rng: {"id": _id(rng), "reward": 1.0, "pairs": [("x", 1.0)], "slot": "home"},
        _right,
        0.05,
    ),
    "Client: address": Call(
        _unanswered,
        lambda rng: {"target": "http://127.0.0.1:9", "timeout": 0.5, "retries": 0},
        _right,
        0.01,
        ("retries",),
    ),
    "AsyncClient": Call(
        _awaited,
        lambda rng: {
            "context": rng.normal(size=2),
            "arms": ["a", "b"],
            "key": "k",
            "note": {"who": "me"},
            "slot": "home",
            "reward": 1.0,
        },
        _right,
        0.03,
    ),
}


def _spec(**given: Any) -> Any:
    from prudent.service.bodies import SlotSpec, reader

    made = reader(SlotSpec)(_json(given)).bandit(10)
    shown = made.update(np.ones(2), "a", 1.0).propensities(np.ones(2))
    return np.ravel(shown)


def _json(given: Any) -> bytes:
    """Return the body that a client could send; what JSON cannot say is said by its name."""
    return json.dumps(given, default=lambda one: one.tolist() if isinstance(one, np.ndarray) else str(one)).encode()


def _body(**given: Any) -> Any:
    from prudent.service.bodies import DecideBody, RewardBody, reader
    from prudent.service.slots import JournalDecider

    reward = reader(RewardBody)(_json({"id": "x", "reward": given.pop("reward"), "metric": given.pop("metric")}))
    body = reader(DecideBody)(_json(given))
    with tempfile.TemporaryDirectory() as folder, _live(folder) as live:
        decider = JournalDecider(live)
        request = {name: getattr(body, name) for name in ("context", "arms", "top", "key", "note")}
        answers = [*decider.decide([request]), *decider.reward([(reward.id, reward.reward, reward.metric)])]
        shares = _audited(live)
    for one in answers:
        if isinstance(one, PrudentError):
            raise one
    return shares


SERVICE = {
    "Client: slots": Call(
        _spec,
        lambda rng: {
            "arms": ["a", "b"],
            "dim": 2,
            "kind": "arms",
            "alpha": 0.5,
            "rewards": str(rng.choice(["gaussian", "bernoulli", "poisson"])),
            "prior_precision": 1.0,
            "min_propensity": 0.1,
            "half_life": 10.0,
            "seed": 1,
            "fallback": "a",
        },
        _right,
        0.05,
        ("dim",),
    ),
    "Client: bodies": Call(
        _body,
        lambda rng: {
            "context": rng.normal(size=2).tolist(),
            "arms": ["a", "b"],
            "top": None,
            "key": "k",
            "note": {"who": "me"},
            "reward": 1.0,
            "metric": None,
        },
        _right,
        0.05,
    ),
}


# -- files and states that were damaged ----------------------------------------------------------------------------


def _damage(path: Path, lot: Any) -> None:
    """Change up to three bytes of a file, or cut it, as a lot of any kind says; 0 leaves it as it is."""
    if isinstance(lot, int) and lot == 0:
        return
    rng = np.random.default_rng(zlib.crc32(repr(lot).encode()))
    content = bytearray(path.read_bytes())
    if rng.random() < 0.1:
        content = content[: rng.integers(len(content))]
    for _ in range(rng.integers(1, 4)):
        if content:
            content[rng.integers(len(content))] = rng.integers(256)
    path.write_bytes(bytes(content))


def _model_file(kind: str) -> Any:
    def call(lot: Any, **given: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            getattr(pr.MDP(**given), f"to_{kind}")(path)
            _damage(path if path.exists() else path.with_suffix(".tra"), lot)
            return getattr(pr.MDP, f"from_{kind}")(path, 0.9).dense()

    return call


def _petsc(lot: Any, discount: Any, **given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "transition", Path(folder) / "reward"
        pr.MDP(**given, discount=0.9).to_petsc(*paths)
        _damage(paths[len(repr(lot)) % 2], lot)
        return pr.MDP.from_petsc(*paths, discount).dense()


def _saved_decision(lot: Any, **given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        pr.save(folder, pr.solve(pr.MDP(**given)), settings={"ward": "7"})
        _damage(Path(folder) / "decision.state", lot)
        return pr.load(folder).solution.value


def _saved_bandit(made: Any) -> Any:
    def call(lot: Any, context: Any, reward: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bandit"
            bandit = made().update(context, "a", reward)
            bandit.save(path)
            _damage(path, lot)
            return type(bandit).load(path).select(np.ones((2, 2)), ["a", "b"])

    return call


def _worlds(rng: np.random.Generator) -> dict[str, Any]:
    return _world(rng) | {"discount": 0.9, "lot": 0}


def _lessons(rng: np.random.Generator) -> dict[str, Any]:
    return {"lot": 0, "context": rng.normal(size=2), "reward": 1.0}


def _admissible(given: dict[str, Any], found: Any) -> str:
    """Require probabilities of the pairs that a file has; one with another name is another action."""
    return adds_up(found[found.any(axis=-1)])


DAMAGED = {
    "MDP: UMB file": Call(_model_file("umb"), _worlds, lambda given, found: adds_up(found), 0.05),
    "MDP: PRISM file": Call(_model_file("prism"), _worlds, _admissible, 0.05),
    "MDP: PETSc files": Call(_petsc, _worlds, lambda given, found: adds_up(found), 0.05),
    "load: damaged": Call(_saved_decision, _worlds, anything, 0.05),
    "LinearBandit: damaged": Call(
        _saved_bandit(lambda: pr.LinearBandit(["a", "b"], dim=2, rng=1)), _lessons, anything, 0.05
    ),
    "SharedLinearBandit: damaged": Call(
        _saved_bandit(lambda: pr.SharedLinearBandit(2, rng=1)), _lessons, anything, 0.05
    ),
}

CALLS: dict[str, Call] = FIRST | PLANS | STUDIES | LOGS | JOURNALS | (SERVICE if SERVED else {}) | DAMAGED
