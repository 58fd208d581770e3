"""Experiments of a slot, without HTTP: parts of the traffic, sticky decisions, shadows, rules, audit, rollback."""

from __future__ import annotations

import math
import sqlite3
import time

import numpy as np
import pytest
from _postgres import Server, programs
from refusals import refused

import prudent as pr
from benchmarks.propensities import deviations, prepare, work
from prudent.errors import DataError, ParameterError
from prudent.service.bodies import SlotSpec
from prudent.service.experiment_specs import ExperimentSpec, Guardrail, HoldOut
from prudent.service.experiments import Experiment, position_of
from prudent.service.problems import ServiceError
from prudent.service.registry import Registry

ARMS = ["a", "b", "c"]
CHALLENGER = SlotSpec(arms=ARMS, rewards="bernoulli", min_propensity=0.1)


@pytest.fixture
def started(tmp_path):
    """Return a function that starts an experiment on a fresh slot; journals are closed at the end."""
    opened = []

    def start(spec, seed=1, **options):
        folder = tmp_path / str(len(opened))
        registry = Registry(f"sqlite:{folder}", synchronous="NORMAL")
        given = {"rewards": "bernoulli", "rng": seed, "min_propensity": 0.05} | options
        journal = registry.journal("home", pr.LinearBandit(ARMS, 0, **given))
        experiment = Experiment(registry, "home", journal)
        opened.append((experiment, journal, registry))
        experiment.put(spec, "ada", "home")
        return experiment

    yield start
    for experiment, journal, registry in opened:
        experiment.close()
        journal.close()
        registry.close()


def asks(units, **more):
    return [{"note": {"user": unit}, **more} for unit in units]


def test_traffic_is_divided_by_the_hash_of_the_unit_and_a_larger_ramp_keeps_its_units(started):
    spec = ExperimentSpec(ramp=0.2, challenger=CHALLENGER, holdout=HoldOut(0.1))
    experiment = started(spec)
    units = [f"u{i}" for i in range(2000)]
    before = [experiment.part_of(unit) for unit in units]
    for part, share in (("holdout", 0.1), ("challenger", 0.2)):  # 6 standard errors: 1e-8
        assert abs(before.count(part) - 2000 * share) < 6.0 * math.sqrt(2000 * share * (1 - share))
    experiment.put(ExperimentSpec(ramp=0.6, challenger=CHALLENGER, holdout=HoldOut(0.1)), "ada")
    after = [experiment.part_of(unit) for unit in units]
    assert all(now == "challenger" for now, was in zip(after, before, strict=True) if was == "challenger")
    assert [unit for unit, part in zip(units, after, strict=True) if part == "holdout"] == [
        unit for unit, part in zip(units, before, strict=True) if part == "holdout"
    ]
    experiment.set_status("paused", "ada", "lunch")
    assert "challenger" not in [experiment.part_of(unit) for unit in units]
    assert [entry["what"] for entry in experiment.audit()] == ["start", "change", "paused"]
    with refused(ServiceError, "slot-exists", argument="unit"):
        experiment.put(ExperimentSpec(unit="session", ramp=0.2, challenger=CHALLENGER), "ada")


def test_rewards_find_their_part_and_every_decision_can_be_taken_again(started):
    experiment = started(ExperimentSpec(ramp=0.3, challenger=CHALLENGER, holdout=HoldOut(0.3, {"a": 0.5, "b": 0.5})))
    wrong = [{"note": {}}, {"note": {"user": "u1", "experiment": "blue"}}]
    found = experiment.decide([*asks(f"u{i}" for i in range(60)), *wrong])
    for code in ("reserved-name", "missing-unit"):
        with refused(DataError, code, argument="note"):
            raise found.pop()
    parts = [one.id.partition("~")[0] if "~" in one.id else "champion" for one in found]
    assert set(parts) == {"champion", "challenger", "holdout"}
    for one, part in zip(found, parts, strict=True):
        if part == "holdout":
            assert one.propensity == pytest.approx(0.5)
            assert one.arm in ("a", "b")
        assert one.propensity >= 0.05 - 1e-12
    statuses = experiment.reward([(one.id, 1.0, None) for one in found])
    assert set(statuses) == {"ok"}
    assert experiment.reward([(found[0].id, 1.0, None), ("1-0000000000000000", 1.0, None)]) == ["duplicate", "unknown"]
    seen = experiment.look()
    assert sum(one["rewards"] for one in seen["parts"].values()) == 60
    assert experiment.champion.verify() > 0


def test_a_sticky_unit_gets_its_first_decision_again(started):
    experiment = started(ExperimentSpec(sticky=1e9, ramp=0.5, challenger=CHALLENGER))  # a window ends within 1 s: 2e-8
    units = [f"u{i % 20}" for i in range(60)]
    first = experiment.decide(asks(units))
    again = experiment.decide(asks(units[:20], arms=["c", "b", "a"]))
    by_unit = dict(zip(units, first, strict=True))
    for unit, one in zip(units[:20], again, strict=True):
        assert (one.id, one.arm, one.propensity) == (by_unit[unit].id, by_unit[unit].arm, by_unit[unit].propensity)
    assert len({one.id for one in first}) == 20
    unit = units[0]
    other = [arm for arm in ARMS if arm != by_unit[unit].arm]
    (fresh,) = experiment.decide(asks([unit], arms=other))
    assert fresh.arm in other


def test_a_control_arm_has_its_share(started, seed):
    """5.5 standard errors: a false alarm in 1e-7 runs."""
    experiment = started(ExperimentSpec(control="b", control_share=0.3, max_propensity={"c": 0.5}), seed)
    found = experiment.decide(asks(f"u{i}" for i in range(600)))
    assert abs(sum(one.arm == "b" for one in found) - 180) < 5.5 * math.sqrt(600 * 0.3 * 0.7)
    assert {round(one.propensity, 9) for one in found if one.arm == "b"} == {0.3}
    assert experiment.champion.verify() == 600
    experiment.put(ExperimentSpec(control="b", control_share=0.1), "ada")
    assert experiment.champion.bandit.propensities()[1] == pytest.approx(0.1)
    experiment.set_status("stopped", "ada")
    assert experiment.champion.bandit.limits is None
    assert experiment.champion.verify() == 600
    (one,) = experiment.decide([{}])  # without a unit: nothing is divided any more
    assert one.arm in ARMS


def fed(experiment, rates, rng, count, per=200, metric=None):
    """Decide for units and report rewards with these rates of parts."""
    for start in range(0, count, per):
        found = experiment.decide(asks(f"{rng.integers(2**60)}-{i}" for i in range(start, start + per)))
        parts = [one.id.partition("~")[0] if "~" in one.id else "champion" for one in found]
        experiment.reward(
            [(one.id, float(rng.random() < rates[part]), None) for one, part in zip(found, parts, strict=True)]
        )
        if metric is not None:
            name, chances = metric
            experiment.reward(
                [(one.id, 1.0, name) for one, p in zip(found, parts, strict=True) if rng.random() < chances[p]]
            )
        seen = experiment.act()
        if seen["done"]:
            return seen
    return seen


def test_a_better_challenger_is_promoted_and_can_be_rolled_back(started, rng):
    experiment = started(ExperimentSpec(ramp=0.5, challenger=CHALLENGER, promote_above=0.0, stop_below=0.0))
    old = experiment.champion
    (late,) = experiment.decide(asks([next(f"x{i}" for i in range(99) if experiment.part_of(f"x{i}") == "champion")]))
    seen = fed(experiment, {"champion": 0.2, "challenger": 0.8}, rng, 2000)
    assert seen["done"] == "promote"
    assert experiment.champion is not old
    assert experiment.state.status == "promoted"
    assert {experiment.part_of(f"u{i}") for i in range(50)} == {"champion"}
    assert experiment.reward([(late.id, 1.0, None)]) == ["ok"]  # by the journal that took it
    assert experiment.rollback("ada", reason="wrong after all").champion == "home"
    assert experiment.champion is old
    when = time.time()
    known = experiment.champion.bandit.n_rewards
    (one,) = experiment.decide(asks(["u1"]))
    experiment.reward([(one.id, 1.0, None)])
    experiment.rollback("ada", to=when)
    assert experiment.champion.bandit.n_rewards == known
    assert [entry["what"] for entry in experiment.audit()] == ["start", "promote", "rollback", "rollback"]
    assert [entry["who"] for entry in experiment.audit()] == ["ada", "rule", "ada", "ada"]


def test_a_worse_challenger_is_stopped_and_a_guardrail_pauses(started, rng):
    worse = started(ExperimentSpec(ramp=0.5, challenger=CHALLENGER, promote_above=0.0, stop_below=0.0))
    assert fed(worse, {"champion": 0.8, "challenger": 0.2}, rng, 2000)["done"] == "stop"
    assert worse.state.status == "stopped"
    rails = {"complaint": Guardrail(worse_by=0.02), "refund": Guardrail(at_most=0.9)}
    harmful = started(ExperimentSpec(ramp=0.5, challenger=CHALLENGER, guardrails=rails))
    same, bad = {"champion": 0.5, "challenger": 0.5}, {"champion": 0.01, "challenger": 0.5}
    seen = fed(harmful, same, rng, 2000, metric=("complaint", bad))
    assert seen["done"] == "pause"
    assert "complaint" in seen["reason"]
    metrics = harmful._store.metrics("home")
    forged = ["1-0000000000000000", "challenger~1-0000000000000000", "~", "nonsense", "challenger~"]
    assert harmful.reward([(id, 1.0, "refund") for id in forged]) == ["unknown"] * len(forged)
    assert harmful._store.metrics("home") == metrics
    with refused(DataError, "unknown-metric", argument="metric"):
        raise harmful.reward([("1-0000000000000000", 1.0, "sorrow")])[0]
    with refused(DataError, "value-range", argument="reward"):
        raise harmful.reward([("1-0000000000000000", 7.0, "refund")])[0]


def test_windows_close_in_all_parts_and_in_earlier_champions(tmp_path):
    registry = Registry(f"sqlite:{tmp_path}/store", synchronous="NORMAL")
    options = {"window": 0.3, "default": 0.0}
    with registry.journal("home", pr.LinearBandit(ARMS, 0, rewards="bernoulli"), **options) as journal:
        experiment = Experiment(registry, "home", journal, options)
        experiment.put(ExperimentSpec(ramp=0.4, challenger=CHALLENGER, holdout=HoldOut(0.3)), "ada", "home")
        experiment.decide(asks(f"u{i}" for i in range(40)))
        experiment.promote("ada")
        assert {row["reward"] for row in experiment.rows(None)} == {None}
        time.sleep(1.1)  # windows are looked at once a second
        assert experiment.catch_up().entries == 0
        assert [row["reward"] for row in experiment.rows(None)] == [0.0] * 40
        experiment.close()
    registry.close()


def test_a_shadow_is_valued_by_what_it_would_have_done(started, rng):
    """The shadow learns that c is best; its interval holds the truth. False-alarm rate 1e-6, by the confidence."""
    pinned = {"a": 0.4, "b": 0.3, "c": 0.3}
    spec = ExperimentSpec(shadows={"plain": SlotSpec(arms=ARMS, rewards="bernoulli")}, confidence=0.999999)
    experiment = started(spec, max_propensity=pinned, min_propensity=pinned)
    chances = {"a": 0.2, "b": 0.3, "c": 0.9}
    for _ in range(8):
        found = experiment.decide(asks(f"{rng.integers(2**60)}" for _ in range(100)))
        experiment.reward([(one.id, float(rng.random() < chances[one.arm]), None) for one in found])
        seen = experiment.look()["shadows"]["plain"]
    would = [row["note"]["experiment"]["shadows"]["plain"] for row in experiment.champion.rows()]
    assert all(sum(one.values()) == pytest.approx(1.0) for one in would)
    earned = np.mean([sum(one[arm] * chances[arm] for arm in ARMS) for one in would])
    assert seen["rewards"] == 800
    assert seen["low"] <= earned - sum(pinned[arm] * chances[arm] for arm in ARMS) <= seen["high"]
    assert earned > 0.7


def test_the_audit_log_cannot_be_rewritten(started):
    experiment = started(ExperimentSpec())
    registry = experiment._registry
    with sqlite3.connect(f"{registry.folder}/slots.db") as db:
        for sql in ("DELETE FROM experiment", "UPDATE experiment SET who = 'eve'"):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(sql)
    db.close()
    assert experiment.audit()[0]["who"] == "ada"


def test_another_process_sees_the_change(started):
    experiment = started(ExperimentSpec(ramp=0.5, challenger=CHALLENGER))
    other = Experiment(experiment._registry, "home", experiment.champion)
    assert [other.part_of(f"u{i}") for i in range(50)] == [experiment.part_of(f"u{i}") for i in range(50)]
    experiment.set_status("paused", "ada")
    other.refresh()
    assert other.state.status == "paused"
    other.set_status("stopped", "bob")
    with refused(ServiceError, "experiment-ended"):
        experiment.set_status("running", "ada")
    other.close()


def test_what_cannot_be_is_refused(started, tmp_path):
    experiment = started(ExperimentSpec())
    for spec, argument in (
        (ExperimentSpec(ramp=0.5), "ramp"),
        (ExperimentSpec(ramp=0.6, challenger=CHALLENGER, holdout=HoldOut(0.5)), "ramp"),
        (ExperimentSpec(control="z", control_share=0.1), "control"),
        (ExperimentSpec(control="a"), "control"),
        (ExperimentSpec(holdout=HoldOut(0.1, {"a": 0.5})), "holdout.probabilities"),
        (ExperimentSpec(reward_range=(1.0, 1.0)), "reward_range"),
    ):
        with refused(ParameterError, "experiment", argument=argument):
            experiment.put(spec, "ada")
    for more in ({"arms": ["a", "b"]}, {"dim": 2}, {"rewards": "gaussian"}):
        other = SlotSpec(**({"arms": ARMS, "rewards": "bernoulli"} | more))
        name = next(iter(more))
        experiment.set_status("stopped", "ada")
        with refused(ParameterError, "different-bandits", argument=f"challenger.{name}"):
            experiment.put(ExperimentSpec(challenger=other), "ada")
        with refused(ParameterError, "different-bandits", argument=f"shadows.x.{name}"):
            experiment.put(ExperimentSpec(shadows={"x": other}), "ada")
    with refused(ServiceError, "no-earlier", argument="to"):
        experiment.rollback("ada")
    with refused(ServiceError, "experiment-ended"):
        experiment.promote("ada")
    assert position_of("s", "u") != position_of("t", "u")


def test_counts_are_the_sums_of_propensities(tmp_path):
    """Two replicas that lag behind each other; 12 counts within 5.8 standard errors, false-alarm rate 1e-7."""
    store = f"sqlite:{tmp_path}/store"
    prepare(store)
    total = {}
    for number in range(2):  # the second begins with what the first has learned
        for part, sums in work((store, number, 700)).items():
            total[part] = total.get(part, 0.0) + sums
    assert set(total) == {"champion", "challenger", "holdout"}
    assert max(abs(off) for off in deviations(total).values()) < 5.8


@pytest.mark.slow
def test_an_experiment_in_postgresql():
    pytest.importorskip("psycopg")
    if programs() is None:
        pytest.skip("no PostgreSQL on this machine: install Debian's package postgresql")
    server = Server()
    try:
        registry = Registry(server.address, synchronous="NORMAL")
        with registry.journal("home", pr.LinearBandit(ARMS, 0, rewards="bernoulli")) as journal:
            experiment = Experiment(registry, "home", journal)
            rails = {"complaint": Guardrail(at_most=0.5)}
            experiment.put(ExperimentSpec(ramp=0.5, challenger=CHALLENGER, sticky=1e9, guardrails=rails), "ada", "home")
            found = experiment.decide(asks(f"u{i % 10}" for i in range(20)))
            assert len({one.id for one in found}) == 10
            reports = [(one.id, 1.0, None) for one in found[:10]]
            assert set(experiment.reward(reports)) == {"ok"}
            complaint = (found[0].id, 1.0, "complaint")
            assert experiment.reward([complaint, complaint]) == ["ok", "duplicate"]
            experiment.promote("ada")
            assert experiment.look()["parts"]["champion"]["decisions"] > 0
            registry.transact(lambda run: run("DELETE FROM experiment"))
            registry.transact(lambda run: run("UPDATE experiment SET who = 'eve'"))
            assert [one["who"] for one in experiment.audit()] == ["ada", "ada"]
            experiment.close()
        registry.close()
    finally:
        server.close()
