"""What is done today next to new policies, and what must not be measured: against plain NumPy."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent.analysis.log_study import study_log
from prudent.errors import ParameterError, PosteriorError

LOG = [
    ("ill", "wait", "ill", 0, 60),
    ("ill", "wait", "dead", 0, 20),
    ("ill", "wait", "weak", 0, 10),
    ("ill", "wait", "well", 1, 30),
    ("ill", "drug", "well", 1, 2),
    ("ill", "drug", "dead", 0, 1),
    ("weak", "wait", "ill", 0, 12),
    ("weak", "drug", "well", 1, 10),
    ("weak", "drug", "ill", 0, 5),
]


@pytest.fixture
def log():
    return pr.from_log(LOG, 0.95, terminal=["well", "dead"])


def test_differences_are_paired_over_the_draws(log):
    model, posterior = log
    b = pr.planning.log_policy(model, posterior)
    plans = {a: pr.BayesianRiskMDP(model, posterior, a).solve() for a in (0.0, 0.9)}
    found = pr.posterior_returns(model, posterior, plans, "ill", 300, 1, baseline="log")
    assert found.policy.values.tolist() == [0.0, 0.9, "today"]
    alone = pr.posterior_returns(model, posterior, {**plans, "today": b}, "ill", 300, 1)
    np.testing.assert_allclose(found.returns.values, alone.returns.values)
    ahead = found.returns.values - found.returns.values[:, -1:]
    np.testing.assert_allclose(found.difference.values, ahead.mean(axis=0))
    np.testing.assert_allclose(found.difference_se.values, ahead.std(axis=0, ddof=1) / np.sqrt(300))
    np.testing.assert_allclose(
        found.probability_better.values, [(ahead[:, 0] > 0).mean(), (ahead[:, 1] > 0).mean(), 0.5]
    )
    assert "difference" not in pr.posterior_returns(model, posterior, plans, "ill", 5, 1)
    with refused(ParameterError, "duplicate-name", argument="policies"):
        pr.posterior_returns(model, posterior, {"today": b}, "ill", 5, 1, baseline=b)
    with refused(PosteriorError, "no-data", argument="baseline"):
        pr.posterior_returns(model, posterior.counts, plans, "ill", 5, 1, baseline="log")


@pytest.mark.parametrize("close", [{}, {"min_visits": 5}, {"epsilon": 0.2}])
def test_contributions_add_up_to_the_difference(log, close):
    model, posterior = log
    profile = pr.risk_profile(model, posterior, (0, 0.9), "ill", 50, 1, baseline="log", **close)
    mean = pr.BayesianRiskMDP(model, posterior, 0).mean_mdp()
    start, b = model.start_distribution("ill"), pr.planning.log_policy(model, posterior)
    for i, (alpha, solution) in enumerate(profile.solutions.items()):
        gain = start @ (pr.evaluate(mean, solution).value - pr.evaluate(mean, b).value)
        table = profile.changes(alpha)
        assert table["contribution"].sum() == pytest.approx(gain, abs=1e-8)
        assert profile.today.differences[i] == pytest.approx(gain, abs=1e-8)
        assert (np.diff(abs(table["contribution"])) <= 0).all()
    table = profile.to_pandas()
    assert table.index.tolist() == [0.0, 0.9, "today"]
    assert np.isnan(table.loc["today", "probability_better"])
    assert profile.by_level().index.tolist() == [0.0, 0.9]
    assert profile.returns.policy.dtype == float
    assert table.loc["today", "mean"] == pytest.approx(profile.today.returns["mean"].values[-1])
    assert "today" in repr(profile)
    profile.plot()
    profile.to_xarray()


def test_profiles_need_a_baseline_to_compare_with(log):
    plain = pr.risk_profile(*log, (0, 0.9), "ill", 20, 1)
    assert plain.today is None
    assert "difference" not in plain.to_pandas()
    assert plain.to_pandas().shape[0] == 2
    with refused(ParameterError, "missing-argument", argument="baseline"):
        plain.changes()
    with refused(ParameterError, "unknown-option", argument="alpha", value=0.7):
        pr.risk_profile(*log, 0, "ill", 20, 1, baseline="log").changes(0.7)
    with refused(ParameterError, "missing-argument", argument="baseline"):
        pr.risk_profile(*log, 0, "ill", 20, 1, min_visits=3)


def test_today_itself_changes_nothing(log):
    profile = pr.risk_profile(*log, 0, "ill", 20, 1, baseline="log", min_visits=np.inf)
    assert profile.changes().empty
    assert profile.returns["probability_better"].values == [0.5]
    assert abs(profile.returns["difference"].values) < 1e-9


def test_a_mixed_policy_of_today_is_shown_with_its_shares(log, tmp_path):
    """Never "wait -> wait"."""
    study = study_log(*log, 0.9, start="ill", draws=30)
    for table in (study.profile.changes(), study.to_pandas()):
        shown = table.set_index("state").loc[["ill", "weak"], "today"].tolist()
        assert all(" " in text and text.count("%") == 2 for text in shown)
    page = study.report(tmp_path / "page.html").read_text()
    assert study.profile.changes()["today"].iloc[0] in page
    pure = study_log(*log, 0.9, start="ill", draws=30, baseline={"ill": "wait", "weak": "wait"})
    assert set(pure.to_pandas()["today"].dropna()) == {"wait"}


def test_a_study_has_today_on_every_table(log, tmp_path):
    study = study_log(*log, (0, 0.9), start="ill", draws=30)
    table = study.to_pandas()
    rows = table[table["alpha"] == 0.0].set_index("state")
    assert rows.loc["ill", "today"].startswith("wait 9")
    assert ", drug " in rows.loc["ill", "today"]
    assert rows.loc["ill", "action"] == "drug"
    assert 0 < rows.loc["ill", "today_share"] < 0.1
    assert pd.isna(rows.loc["well", "today"])
    record = study.record()
    assert record["today"]["changes"][0]["state"] in ("ill", "weak")
    assert record["today"]["mean"] > 0
    chances = {row["state"]: row["probabilities"] for row in record["today"]["policy"]}
    assert set(chances) == {"ill", "weak"}
    assert sum(chances["ill"].values()) == pytest.approx(1)
    page = study.report(tmp_path / "page.html").read_text()
    assert "Compared with today" in page
    assert "what is done today" in page
    plain = study_log(*log, 0, start="ill", draws=30, baseline=None)
    assert plain.record()["today"] is None
    assert "today" not in plain.to_pandas()
    assert "Compared with today" not in plain.report(tmp_path / "page.html").read_text()


def test_what_is_dangerous_is_neither_done_nor_measured(log):
    """Without a word, the advice is to give the drug where it is hardly known."""
    model, posterior = log
    advised = pr.value_of_data(model, posterior, 0, 10, start="ill")
    assert advised.ranking[0] == ("ill", "drug")
    assert advised.gain.max() > 0.01
    study = study_log(model, posterior, 0, start="ill", draws=20, exclude={"ill": "drug"})
    assert ("ill", "drug") not in study.next_data.ranking
    assert study.profile.solutions[0.0].policy_names[model.states.index("ill")] == "wait"
    # a source that is not excluded is worth what it is worth in the model without the pair
    rest = pr.value_of_data(model, posterior, 0, 10, start="ill", exclude={"ill": "drug"})
    without = pr.from_log([row for row in LOG if row[:2] != ("ill", "drug")], 0.95, terminal=["well", "dead"])
    other = pr.value_of_data(*without, 0, 10, start="ill")
    np.testing.assert_allclose(
        rest.gain[[rest.names.index(name) for name in other.names]], other.gain, rtol=1e-6, atol=1e-9
    )
    only = pr.value_of_data(model, posterior, 0, 10, start="ill", exclude_data=[("ill", "drug")])
    assert ("ill", "drug") not in only.names
    assert only.solution.policy_names[model.states.index("ill")] == "drug"
    with refused(ParameterError, "unknown-action"):
        pr.value_of_data(model, posterior, exclude_data={"ill": "prayer"})
    with refused(ParameterError, "no-action", argument="exclude", state="weak"):
        pr.value_of_data(model, posterior, exclude={"weak": ["wait", "drug"]})
    with refused(ParameterError, "empty", argument="exclude"):
        pr.value_of_data(model, posterior, sources=[("ill", "drug")], exclude_data={"ill": "drug"})
    with refused(ParameterError, "inadmissible-action"):
        pr.value_of_data(model, posterior, solution=advised.solution, exclude={"ill": "drug"})
