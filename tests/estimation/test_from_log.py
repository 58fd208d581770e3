"""From a log to a model and its posterior: against a slow reference, and against logs that people really have."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent.errors import DataError, ModelError, ParameterError, PosteriorError
from prudent.estimation import LogSummary, from_log
from prudent.posteriors.dirichlet import prior_counts

WARD = [
    ("ill", "wait", "ill", -1.0),
    ("ill", "wait", "dead", -9.0),
    ("ill", "drug", "well", -2.0),
    ("ill", "drug", "ill", -2.0),
    ("ill", "drug", "well", -2.0),
    ("well", "wait", "well", 0.0),
    ("well", "wait", "home", 5.0),
]
ENDS = {"home": 0.0, "dead": 0.0}


# --- against a slow reference ----------------------------------------------------------------------------


def slow(rows, min_count, support, prior):
    """{(s, a): {s': [prior, seen, reward]}}, with a dict and a loop."""
    visits, times, earned = Counter(), Counter(), defaultdict(float)
    for s, a, t, r, n in rows:
        visits[s, a] += n
        times[s, a, t] += n
        earned[s, a, t] += n * r
    model = {}
    for s in {s for s, *_ in rows}:
        tried = {a: visits[s, a] for s_, a in visits if s_ == s}
        often = {a for a, n in tried.items() if n >= min_count}
        for a in often or {a for a, n in tried.items() if n == max(tried.values())}:
            after = {t for s_, a_, t in times if s_ == s and (a_ == a or support == "state")}
            model[s, a] = {
                t: (prior / len(after), times[s, a, t], earned[s, a, t] / times[s, a, t] if times[s, a, t] else None)
                for t in after
            }
    return model


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(5, 7),
            st.integers(0, 4),
            st.sampled_from([0.0, 1.0, -2.5]),
            st.integers(1, 3),
        ),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 4),
    st.sampled_from(["action", "state"]),
)
def test_model_and_posterior_are_those_of_the_slow_reference(rows, min_count, support):
    rows = [(f"s{s}", a, f"s{t}" if t < 4 else "end", r, n) for s, a, t, r, n in rows]
    never_left = {t for _, _, t, _, _ in rows} - {s for s, *_ in rows}
    model, posterior = from_log(
        rows, 0.9, terminal=sorted(never_left), min_count=min_count, support=support, prior=0.75
    )
    expected = slow(rows, min_count, support, 0.75)
    states, actions = model.states or range(model.n_states), model.actions or range(model.n_actions)
    alive = [(states[s], actions[a]) for s, a in np.argwhere(model.admissible) if not model.terminal[s]]
    assert sorted(alive) == sorted(expected)
    for b, (pair, names) in enumerate(zip(model.sources, model.outcomes or [], strict=False)):
        if pair == "terminal":
            continue
        s, a = model.state_index(pair[0]), model.action_index(pair[1])
        assert set(names) == set(expected[pair])
        for k, name in enumerate(names):
            start, seen, reward = expected[pair][name]
            assert posterior.prior[b, k] == pytest.approx(start)
            assert posterior.counts[b, k] == pytest.approx(start + seen)
            assert states[model.next_state[s, a, k]] == name
            if reward is not None:
                assert model.reward[s, a, k] == pytest.approx(reward)
    # the front door that counts rows one by one agrees
    if support == "action" and min_count == 1:
        frame = pd.DataFrame(rows, columns=["state", "action", "next_state", "reward", "count"])
        np.testing.assert_allclose(
            pr.DirichletPosterior.from_log(model, frame, posterior.prior).counts, posterior.counts
        )


# --- what is in it ---------------------------------------------------------------------------------------


def test_a_small_ward_by_hand():
    model, posterior = from_log(WARD, 0.9, terminal=ENDS, support="action")
    assert model.states == ("dead", "home", "ill", "well")
    assert model.sources == (("ill", "drug"), ("ill", "wait"), ("well", "wait"), "terminal")
    assert model.outcomes == (("ill", "well"), ("dead", "ill"), ("home", "well"), (None,))
    np.testing.assert_allclose(posterior.counts, [[1.5, 2.5], [1.5, 1.5], [1.5, 1.5], [1, 0]])
    assert model.reward[2, 1, :2].tolist() == [-9.0, -1.0]
    assert not model.admissible[3, 0]  # never tried
    solution = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve()
    assert solution.policy_names[2:] == ("drug", "wait")
    # the same model, written down by hand
    neutral = pr.BayesianRiskMDP(model, posterior, alpha=0.0).solve().value
    V_well = (0.5 * 5.0 + 0.5 * 0.0) / (1 - 0.9 * 0.5)
    V_ill = (-2.0 + 0.9 * 0.625 * V_well) / (1 - 0.9 * 0.375)
    np.testing.assert_allclose(neutral, [0, 0, V_ill, V_well], atol=1e-9)
    worth = from_log(WARD, 0.9, terminal={"home": 10.0, "dead": -10.0})
    assert pr.BayesianRiskMDP(*worth, alpha=0.0).solve().value[:2].tolist() == [-10.0, 10.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda frame: frame,
        lambda frame: frame.to_dict("list"),
        lambda frame: list(frame.itertuples(index=False)),
        lambda frame: frame.to_numpy(),
        lambda frame: frame.to_records(index=False),
        lambda frame: frame.astype({"state": "category", "next_state": "category", "action": "category"}),
        lambda frame: frame.convert_dtypes(),
        lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        lambda frame: frame.sample(frac=1.0, random_state=1),
        lambda frame: frame.rename(columns={"state": "s", "action": "A", "next_state": "s'", "reward": "R"}),
        lambda frame: frame.rename(columns={"state": "Current State", "next_state": "to"}),
        lambda frame: frame.rename(columns={"state": "idstatefrom", "action": "idaction", "next_state": "idstateto"}),
        lambda frame: frame.set_index(["state", "action"]),
        lambda frame: frame.groupby(list(frame.columns)).size().rename("count").reset_index(),
        lambda frame: frame.assign(patient=range(len(frame)), ward="B"),
    ],
)
def test_every_make_of_log_gives_the_same(make):
    frame = pd.DataFrame(WARD, columns=["state", "action", "next_state", "reward"])
    model, posterior = from_log(make(frame), 0.9, terminal=ENDS)
    expected = from_log(WARD, 0.9, terminal=ENDS)
    assert model == expected[0]
    assert posterior == expected[1]


@pytest.mark.parametrize(
    ("separator", "end", "encoding"), [(",", "\n", "utf-8"), (";", "\r\n", "utf-8-sig"), ("\t", "\n", "utf-8-sig")]
)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_text_files(tmp_path, separator, end, encoding, suffix):
    frame = pd.DataFrame(WARD, columns=["state", "action", "next_state", "reward"])
    path = tmp_path / f"log.{suffix}"
    frame.to_csv(path, sep=separator, index=False, lineterminator=end, encoding=encoding)
    model, posterior = from_log(path, 0.9, terminal=ENDS)
    expected = from_log(WARD, 0.9, terminal=ENDS)
    assert (model == expected[0], posterior == expected[1]) == (True, True)
    assert from_log(str(path), 0.9, terminal=ENDS)[0].summary.used == 7


def test_parquet_and_decimal_commas(tmp_path):
    frame = pd.DataFrame(WARD, columns=["state", "action", "next_state", "reward"])
    frame.to_parquet(tmp_path / "log.parquet")
    assert from_log(tmp_path / "log.parquet", 0.9, terminal=ENDS)[0] == from_log(WARD, 0.9, terminal=ENDS)[0]
    (tmp_path / "log.csv").write_text("s;a;sp;r\r\nx;go;x;0,5\r\nx;go;y;-1,25\r\ny;go;x;2\r\n")
    assert from_log(tmp_path / "log.csv", 0.9)[0].reward[0, 0].tolist() == [0.5, -1.25]
    (tmp_path / "no.parquet").write_bytes(b"PAR1 not")
    with refused(DataError, "damaged-file"):
        from_log(tmp_path / "no.parquet", 0.9)


def test_labels_of_files_are_one_kind(tmp_path):
    """States 1, 2 that are left, and 'died', which is not: all of them texts, or one state would be two."""
    path = tmp_path / "log.csv"
    path.write_text("state,action,next_state,reward\n1,0,2,0\n2,0,1,0\n2,1,died,-1\n")
    model, _ = from_log(path, 0.9, terminal=["died"])
    assert model.states == ("1", "2", "died")
    assert model.actions == (0, 1)
    path.write_text("state,action,next_state,reward\n1,1,2,0\n2,1,3,0\n3,2,1,0\n")
    assert from_log(path, 0.9)[0].states == (1, 2, 3)
    path.write_text("state,action,next_state,reward\n1,1,2,0\n2,1,4,0\n")  # names of a command line are texts
    assert from_log(path, 0.9, terminal=["4"])[0].terminal.tolist() == [False, False, True]
    assert from_log(path, 0.9, terminal={"4": 2.0})[0].terminal_value.tolist() == [0, 0, 2]
    assert from_log(path, 0.9, absorbing="4", end="unused")[0].absorbing.tolist() == [False, False, True]
    path.write_text("state,action,next_state,reward\n01,1,02,0\n02,1,01,0\n")
    assert from_log(path, 0.9)[0].states == ("01", "02")
    path.write_text("state,action,next_state,reward\n1.0,1,2.0,0\n2.0,1,1.0,0\n")  # as pandas writes whole numbers
    assert from_log(path, 0.9)[0].states == (1, 2)
    path.write_text("state,action,next_state,reward\nNA,1,None,0\nNone,1,NA,0\n")  # names like any other
    assert from_log(path, 0.9)[0].states == ("NA", "None")
    mixed = pd.DataFrame({"state": [1, 2], "action": [0, 0], "next_state": ["2", "1"], "reward": [0, 0]})
    with refused(DataError, "mixed-types", column="state"):
        from_log(mixed, 0.9)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("", "no-header", None),
        ("\n", "no-header", None),
        ("state,action,next_state,reward\n", "no-rows", None),
        ("state,action,next_state\n1,2,1\n", "missing-column", None),
        ("state,action,reward\n1,2,1\n", "missing-column", None),
        ("place,action,next_state,reward\n1,2,1,1\n", "missing-column", None),
        ("state,action,next_state,reward\n1,2,1,1\n1,2,1,x\n", "not-finite", 3),
        ("state,action,next_state,reward\n1,2,1,1\n\n1,2,1,\n", "not-finite", 4),
        ("state,action,next_state,reward\n1,2,1,1\n1,,1,1\n", "unknown-action", 3),
        ("state,action,next_state,reward\n1,2,1,1\n1,2\n", "missing-value", 3),
        ("state,action,next_state,reward\n1,2,1,1\n1,2,1,1,7\n", "row-width", 3),
        ("state,action,next_state,reward\n1,2,1,1\n1,2,1,1,7,8,9\n", "wrong-format", None),
        ("state,action,next_state,reward\n1,2,1,1,7\n1,2,1,1\n", "row-width", 2),
        ("state,state,action,next_state,reward\n1,1,2,1,1\n", "duplicate-column", None),
        ("s,idstatefrom,action,next_state,reward\n1,1,2,1,1\n", "ambiguous-column", None),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, text, code, line):
    (tmp_path / "log.csv").write_text(text)
    with refused(DataError, code, **({} if line is None else {"line": line})):
        from_log(tmp_path / "log.csv", 0.9)


def test_files_that_are_not_there_or_no_text(tmp_path):
    with refused(DataError, "no-file"):
        from_log(tmp_path / "none.csv", 0.9)
    (tmp_path / "log.csv").write_bytes(b"\xff\xfe\x00\x01\x9c")
    with refused(DataError, "wrong-format"):
        from_log(tmp_path / "log.csv", 0.9)


# --- terminal, absorbing, dead ends ----------------------------------------------------------------------


def test_dead_ends_are_all_in_one_error():
    with pytest.raises(DataError) as caught:
        from_log(WARD, 0.9)
    assert str(caught.value) == (
        "log arrives in 2 states that it never leaves: 'dead' (1 arrival), 'home' (1 arrival); say what happens "
        "there: terminal=['dead', 'home'] if the process ends (or a mapping to what that is worth), or "
        "absorbing=['dead', 'home'] if it stays; or, if the log stops before the process does, truncated='drop' leaves "
        "such rows out and truncated='mean' lets them lead where the other rows of their state lead"
    )
    many = [(0, 0, f"end {i}", 0) for i in range(100)]
    with refused(DataError, "dead-end", argument="log"):
        from_log(many, 0.9, states=[0, *[f"end {i}" for i in range(100)]])


def test_absorbing_states_stay():
    rows = [*WARD, ("home", "wait", "home", 2.0)]
    model, posterior = from_log(rows, 0.9, terminal=["dead"], absorbing={"home": 2.0})
    value = pr.BayesianRiskMDP(model, posterior, alpha=0.5).solve().value
    assert value[model.state_index("home")] == pytest.approx(20.0)
    assert model.summary.dropped == {"that stay in an absorbing state": 1}
    with refused(DataError, "absorbing-reward", row=7, state="home"):
        from_log(rows, 0.9, terminal=["dead"], absorbing=["home"])
    with refused(DataError, "absorbing-state", row=6, state="well"):
        from_log(WARD, 0.9, terminal=ENDS, absorbing=["well"])
    with refused(ParameterError, "conflicting-arguments", state="dead"):
        from_log(WARD, 0.9, terminal=ENDS, absorbing=["dead"])


def test_a_terminal_state_with_rows_of_its_own_is_refused():
    frame = pd.DataFrame([*WARD, ("dead", "wait", "dead", 0)], columns=["state", "action", "next_state", "reward"])
    with refused(DataError, "terminal-state", row=7, state="dead"):
        from_log(frame.set_axis(range(10, 18)), 0.9, terminal=ENDS)
    with refused(ModelError, "unknown-state", argument="terminal"):
        from_log(WARD, 0.9, terminal=["ded", "home"])


# --- min_count, support, prior ---------------------------------------------------------------------------


def test_actions_tried_too_seldom():
    model, posterior = from_log(WARD, 0.9, terminal=["home"], min_count=3, support="action")
    # waiting when ill goes, and with it the only way to 'dead'; waiting when well stays, there is nothing else
    assert model.states == ("home", "ill", "well")
    assert model.sources == (("ill", "drug"), ("well", "wait"), "terminal")
    np.testing.assert_allclose(posterior.counts[:2], [[1.5, 2.5], [1.5, 1.5]])
    summary = model.summary
    assert (summary.rows, summary.used, summary.pairs_below, summary.pairs_spared) == (7, 5, 1, 1)
    assert summary.dropped == {"of actions tried too seldom in their state": 2}
    assert model.notes == (
        "action 'drug' was tried 3 times in state 'ill' and never led to state 'dead', as other actions there did; "
        "support='action' gives that probability 0, support='state' allows it",
        "1 state left out, which nothing leads to: 'dead'",
        "1 pair tried fewer than 3 times stay admissible: nothing was tried more often in their states",
    )
    kept, _ = from_log(WARD, 0.9, terminal=ENDS, min_count=3)  # declared, so kept
    assert kept.states == ("dead", "home", "ill", "well")
    with refused(ParameterError, "not-positive", argument="min_count"):
        from_log(WARD, 0.9, terminal=ENDS, min_count=0)


def test_an_action_no_state_admits_is_dropped_with_a_note():
    rows = [("x", "go", "x", 1.0)] * 3 + [("x", "fly", "x", 1.0)]
    model, _ = from_log(rows, 0.9, min_count=2)
    assert model.actions == ("go",)
    assert model.notes == ("1 action left out, which no state admits: 'fly'",)
    table = [("x", "go", "x", 1.0, 1.0)]
    mdp = pr.MDP.from_table(table, 0.9, actions=["fly", "go"])
    assert (mdp.actions, mdp.notes) == (("go",), ("no state admits 1 action, dropped: 'fly'",))


def test_names_that_look_the_same_are_noted():
    rows = [("low", "go", "high", 1.0), ("high", "go", "low ", 1.0), ("low ", "Go", "low", 1.0)]
    model, _ = from_log(rows, 0.9)
    assert model.notes == (
        "state names that differ only in blanks or capitals are taken as different: 'low' and 'low '",
        "action names that differ only in blanks or capitals are taken as different: 'Go' and 'go'",
    )
    assert from_log([(1, 2, 1, 1.0), (1, 3, 1, 1.0)], 0.9)[0].notes == ()


def test_what_few_observations_leave_out_is_noted():
    common = [("x", "a", "x", 0, 700), ("x", "a", "y", 0, 300), ("y", "a", "x", 0, 1)]
    for times, noted in ((1, True), (8, True), (9, False), (500, False)):  # 0.7^8 is above 5%, 0.7^9 below
        model, _ = from_log([*common, ("x", "b", "x", 0, times)], 0.9, support="action")
        rate = 300 / (1000 + times)  # all that was done in x
        assert noted == ((1 - rate) ** times >= 0.05)
        assert bool(model.notes) is noted
        assert not from_log([*common, ("x", "b", "x", 0, times)], 0.9)[0].notes  # the default is "state"


def test_supports():
    def outcomes(support, **options):
        model, _ = from_log(WARD, 0.9, terminal=ENDS, support=support, **options)
        return dict(zip(model.sources, model.outcomes, strict=True))

    assert outcomes("state")["ill", "drug"] == ("dead", "ill", "well")
    assert outcomes("state")["well", "wait"] == ("home", "well")
    assert outcomes("all")["well", "wait"] == ("dead", "home", "ill", "well")
    given = outcomes({("ill", "drug"): ["well", "ill", "home"], "well": ["well", "ill", "home"]})
    assert given["ill", "drug"] == ("home", "ill", "well")
    assert given["ill", "wait"] == ("dead", "ill")
    assert given["well", "wait"] == ("home", "ill", "well")
    every = np.ones((4, 2, 4), dtype=bool)
    assert outcomes(every) == outcomes("all")
    with refused(DataError, "outside-support", row=3, state="ill", action="drug"):
        outcomes({("ill", "drug"): ["well"]})
    with refused(ParameterError, "unknown-option", argument="support"):
        outcomes("actions")
    with refused(ParameterError, "unknown-state", argument="support"):
        outcomes({"hill": ["well"]})
    with refused(ParameterError, "unknown-state", argument="support['well']"):
        outcomes({"well": ["hell"]})


def test_the_summary_names_the_choices_that_depend_on_the_support():
    """Two trials of a drug without a death: by "action" it is safe, by "state" it may kill as waiting does."""
    rows = [("ill", "wait", "well", 0, 80), ("ill", "wait", "dead", 0, 20), ("ill", "drug", "well", 0, 2)]
    ends = {"well": 1.0, "dead": -20.0}
    for support in ("state", "action"):
        model, posterior = from_log(rows, 0.9, terminal=ends, support=support, prior=2.0)
        (change,) = model.summary.support_matters
        assert change == ("ill", "drug", "wait")
        chosen = pr.BayesianRiskMDP(model, posterior, alpha=0.0).solve().policy_names[model.state_index("ill")]
        assert chosen == (change.by_state if support == "state" else change.by_action)
        assert "'ill': 'drug' by 'action', 'wait' by 'state'" in str(model.summary)
    long = [(f"day {i}", "wait", f"day {i + 1}" if i < 1499 else "ill", 0, 1) for i in range(1500)]
    found, _ = from_log([*long, *rows], 0.9, terminal=ends, prior=2.0, states="as they are")
    assert found.summary.support_matters == (change,)
    safe, _ = from_log([*rows, ("ill", "drug", "dead", 0, 1)], 0.9, terminal=ends)
    assert safe.summary.support_matters == ()
    assert from_log(rows, 1.0, terminal=ends)[0].summary.support_matters == ()  # not compared
    with refused(ModelError, "no-summary"):
        _ = pr.UncertainMDP.direct([[0.0]], 0.9).summary


def test_priors():
    def prior(given, support="state"):
        return from_log(WARD, 0.9, terminal=ENDS, support=support, prior=given)[1].prior

    np.testing.assert_allclose(prior(1.0)[:3].sum(axis=1), 1.0)
    np.testing.assert_allclose(prior(0.5)[:3], [[1 / 6] * 3, [1 / 6] * 3, [0.25, 0.25, 0]])
    model, _ = from_log(WARD, 0.9, terminal=ENDS)
    np.testing.assert_allclose(prior(model.prior(0.5))[:3], [[0.5] * 3, [0.5] * 3, [0.5, 0.5, 0]])
    np.testing.assert_array_equal(prior_counts(model, 0.5)[:3], prior(0.5)[:3])
    np.testing.assert_allclose(prior(prior(2.0)), prior(2.0))
    for bad, code in [(0.0, "not-positive"), ("flat", "not-a-number")]:
        with refused(ParameterError, code, argument="prior"):
            prior(bad)
    with refused(PosteriorError, "not-numbers", argument="prior"):
        prior(("outcome", 1))
    with refused(PosteriorError, "wrong-shape", argument="prior", value=(1, 1)):
        prior([[1.0]])


# --- rewards ---------------------------------------------------------------------------------------------


def test_rewards_of_transitions_that_nobody_has_seen():
    """By the pair where rewards depend on the pair alone; else by where they lead."""
    costs = [("x", "a", "x", -1), ("x", "a", "y", -1), ("x", "b", "x", -3), ("y", "a", "x", -2)]
    model, _ = from_log(costs, 0.9, support="all")
    for (s, a), r in {("x", "a"): -1, ("x", "b"): -3, ("y", "a"): -2}.items():
        assert set(model.reward[model.state_index(s), model.action_index(a)]) == {r}
    model, _ = from_log([*WARD, ("well", "drug", "home", 5.0)], 0.9, terminal=ENDS, support="all")
    drug = model.reward[model.state_index("ill"), model.action_index("drug")]
    assert drug.tolist() == [-9.0, 5.0, -2.0, -2.0]  # dead, home, ill, well
    assert "earn what other arrivals in the same state do" in model.summary.rewards


def test_rewards_that_vary():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(4, 500))
    rows = [(s, a, s, float(s + a + noise[2 * s + a, i])) for s in (0, 1) for a in (0, 1) for i in range(500)]
    model, posterior = from_log(rows, 0.9)
    np.testing.assert_allclose(model.reward[..., 0], np.add.outer([0, 1], [0, 1]) + noise.mean(axis=1).reshape(2, 2))
    summary = model.summary
    assert summary.rewards_varying == 4
    spread = np.sqrt(((noise - noise.mean(axis=1, keepdims=True)) ** 2).sum() / (2000 - 4))
    assert summary.rewards_sd == pytest.approx(spread)
    belief = summary.reward_posterior
    np.testing.assert_allclose(belief.mean(), 0.0)
    wide = np.std([r for *_, r in rows])
    np.testing.assert_allclose(belief.variance(), 1 / (1 / wide**2 + 500 / spread**2))
    certain = pr.BayesianRiskMDP(model, posterior, alpha=0.5, reward_posterior="certain").solve()
    problem = pr.BayesianRiskMDP(model, posterior, alpha=0.5)
    assert (problem.solve(draws=200, rng=1).value < certain.value).all()
    assert (problem.solve().value < certain.value).all()
    assert from_log(WARD, 0.9, terminal=ENDS)[0].summary.reward_posterior is None


def test_rewards_as_outcomes():
    rows = [
        ("x", "go", "x", 1.0),
        ("x", "go", "x", 2.0),
        ("x", "go", "y", 0.0),
        ("x", "go", "x", 2.0),
        ("y", "go", "x", 0),
    ]
    first, _ = from_log(rows, 0.9, rewards="outcomes")
    model, posterior = from_log(rows, 0.9, rewards="outcomes", prior=first.prior(1))
    assert model.outcomes == ((("x", 1.0), ("x", 2.0), "y"), ("x",))
    np.testing.assert_array_equal(posterior.counts, [[2, 3, 2], [2, 0, 0]])
    posterior.update(("x", "go"), ("x", 2.0))
    assert posterior.counts[0].tolist() == [2, 4, 2]
    assert from_log(rows, 0.9)[0].reward[0, 0, 0] == pytest.approx(5 / 3)


def test_rewards_as_given(tmp_path):
    bare = [row[:3] for row in WARD]
    by_state = {"ill": -1.0, "well": 1.0}
    table = pd.DataFrame({"state": ["ill", "well", "dead"], "reward": [-1.0, 1.0, 9.0]})
    one, _ = from_log(bare, 0.9, terminal=ENDS, rewards=lambda s, a, t: by_state[s])
    two, _ = from_log(bare, 0.9, terminal=ENDS, rewards=table)
    table.to_csv(tmp_path / "r.csv", index=False)
    three, _ = from_log(bare, 0.9, terminal=ENDS, rewards=tmp_path / "r.csv")
    four, _ = from_log(bare, 0.9, terminal=ENDS, rewards=np.array([[0, 0], [0, 0], [-1, -1], [1, 1]]))
    assert one == two == three == four
    assert not from_log(bare, 0.9, terminal=ENDS, rewards=0)[0].reward[2:].any()
    with refused(ModelError, "missing-row", argument="rewards"):
        from_log(bare, 0.9, terminal=ENDS, rewards=table[:1])
    with refused(ModelError, "not-finite", argument="rewards", value=None):
        from_log(bare, 0.9, terminal=ENDS, rewards=lambda s, a, t: None)
    for odd in ("max", True):
        with refused(ParameterError, "unknown-option", argument="rewards", value=odd):
            from_log(bare, 0.9, terminal=ENDS, rewards=odd)
    with refused(DataError, "missing-column", column="reward"):
        from_log(bare, 0.9, terminal=ENDS)
    for missing in (None, np.nan):
        rows = [*WARD[:2], ("ill", "drug", "well", missing)]
        with refused(DataError, "not-finite", row=2, column="reward"):
            from_log(rows, 0.9, terminal=["dead", "well"])


# --- episodes --------------------------------------------------------------------------------------------


def test_episodes_without_next_states():
    frame = pd.DataFrame(
        {
            "episode": [7, 8, 7, 8, 7, 8],
            "step": [0, 0, 1, 1, 2, 2],
            "state": ["ill", "ill", "ill", "well", "well", "home"],
            "action": ["wait", "drug", "drug", "wait", "wait", None],
            "reward": [-1.0, -2.0, -2.0, 5.0, 3.0, 0.0],
        }
    )
    model, _ = from_log(frame, 0.9, terminal=["home"])
    expected = [("ill", "wait", "ill", -1), ("ill", "drug", "well", -2), ("ill", "drug", "well", -2)]
    assert model == from_log([*expected, ("well", "wait", "home", 5)], 0.9, terminal=["home"])[0]
    assert model.summary.episodes == 2
    assert model.summary.dropped == {
        "which only say where an episode ended": 1,
        "at the end of an episode, without a next state": 1,
    }
    shuffled = frame.sample(frac=1.0, random_state=4)
    assert from_log(shuffled, 0.9, terminal=["home"])[0] == model
    ended, _ = from_log(frame, 0.9, terminal=["home"], end="out")
    assert ended.states == ("home", "ill", "out", "well")
    assert ended.terminal.tolist() == [True, False, True, False]
    assert ended.reward[3, 1].tolist() == [5.0, 3.0]
    with refused(DataError, "duplicate-row", column="step", row=2):
        from_log(frame.assign(step=0), 0.9, terminal=["home"])
    gaps = frame.assign(next_state=[None, None, None, "home", "home", None])
    assert from_log(gaps, 0.9, terminal=["home"])[0].summary.used == 5
    with refused(DataError, "missing-value", column="next_state", row=0):
        from_log(gaps.drop(columns="episode"), 0.9, terminal=["home"])


# --- odd labels and odd logs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        (1, 2),
        (0, 1),
        (False, True),
        (1.0, 2.0),
        (-1, 5),
        (1.5, 2.5),
        (("a", 1), ("b", 2)),
        ("1", "2"),
        (pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")),
        ("", " "),
        ("naïve", "ÅSE"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("framed", [False, True])
def test_labels_stay_what_they_are(names, framed):
    one, two = names
    rows = [(one, "go", two, 1.0), (two, "go", one, 2.0), (two, "go", two, 3.0)]
    log = pd.DataFrame(rows, columns=["state", "action", "next_state", "reward"]) if framed else rows
    model, posterior = from_log(log, 0.9)
    assert model.states == names
    assert model.reward[1, 0].tolist() == [2.0, 3.0]
    posterior.update((two, "go"), one)
    assert posterior.counts[1].tolist() == [2.5, 1.5]
    assert pr.BayesianRiskMDP(model, posterior, alpha=0.5).evaluate({one: "go", two: "go"}).converged


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ([], "no-rows"),
        (pd.DataFrame({"state": [], "action": [], "next_state": [], "reward": []}), "no-rows"),
        (pd.DataFrame({"a": [1]}), "missing-column"),
        (5, "wrong-type"),
        (None, "wrong-type"),
        ([(1, 2)], "row-width"),
        ([(1, 2, np.nan, 0)], "missing-value"),
        ([(1, 2, 1, 0), (np.nan, 2, 1, 0)], "unknown-state"),
        ([(1, 2, 1, 0), (1, None, 1, 0)], "unknown-action"),
        ([(1, 2, 1, 0, -1)], "negative"),
        ([(1, 2, 1, 0, np.nan)], "not-finite"),
        ([(1, 2, 1, 0, 1e300)], "value-range"),
        ([(1, 2, 1, 1e200)], "value-range"),
        ([(1, 2, 1, 0, 0)], "no-rows"),
        ([([1], 2, 1, 0)], "not-hashable"),
        ([(1, 2, 1, np.inf)], "not-finite"),
    ],
)
def test_logs_that_cannot_be_read(log, code):
    with refused(DataError, code):
        from_log(log, 0.9)


def test_one_row_is_a_model():
    model, posterior = from_log([("x", "go", "x", 1.0)], 0.5)
    assert pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve().value.tolist() == [pytest.approx(2.0)]


def test_columns_say_which_is_which():
    frame = pd.DataFrame(WARD, columns=["count", "n", "weight", "state"])  # all of them called wrong
    told = {"state": "count", "action": "n", "next_state": "weight", "reward": "state", "count": None}
    model, _ = from_log(frame, 0.9, terminal=ENDS, columns=told)
    assert model == from_log(WARD, 0.9, terminal=ENDS)[0]
    with refused(DataError, "missing-column", column="place"):
        from_log(frame, 0.9, columns={"state": "place"})
    with refused(DataError, "unknown-option", argument="columns"):
        from_log(frame, 0.9, columns={"stat": "n"})
    with refused(DataError, "conflicting-arguments", argument="columns"):
        from_log(WARD, 0.9, columns={"state": "n"})
    double = pd.DataFrame([row[:1] + row for row in WARD], columns=["state", "state", "action", "next_state", "reward"])
    with refused(DataError, "duplicate-column", column="state"):
        from_log(double, 0.9)


# --- the summary -----------------------------------------------------------------------------------------


def test_the_summary_speaks():
    frame = pd.DataFrame(WARD, columns=["s", "a", "next", "r"]).assign(patient=1, count=2, weight=70.5)
    model, _ = from_log(frame, 0.9, terminal=ENDS, min_count=5, support="action")
    summary = model.summary
    assert isinstance(summary, LogSummary)
    assert str(summary).splitlines() == [
        "rows      7 read, 5 used (10 observations by their counts)",
        "dropped   2: 2 of actions tried too seldom in their state",
        "columns   state is 's', action is 'a', next_state is 'next', reward is 'r', count (how often a row was seen); "
        "not used: 'patient', 'weight'",
        "states    4: 2 to act in, 2 terminal ('dead', 'home'); 2 are never left",
        "actions   2",
        "pairs     4 possible: 3 tried, 1 never tried; 2 admissible, 1 not (tried fewer than 5 times)",
        "visits    4 to 6 per admissible pair (quartiles 4.5, 5, 5.5)",
        "support   seen after the action: 2 to 2 next states per pair, 4 transitions",
        "rewards   by transition",
        "note      action 'drug' was tried 6 times in state 'ill' and never led to state 'dead', as other actions "
        "there did; support='action' gives that probability 0, support='state' allows it",
        "note      1 pair tried fewer than 5 times stay admissible: nothing was tried more often in their states",
    ]
    table = summary.to_pandas()
    assert table.visits.sum() == 14
    assert table.set_index(["state", "action"]).admissible.to_dict() == {
        ("ill", "drug"): True,
        ("ill", "wait"): False,
        ("well", "wait"): True,
    }
    assert "<table>" in summary._repr_html_()
    assert "&lt;" in from_log([("<b>", 0, "<b>", 0)] * 2, 0.9, absorbing=[])[0].summary._repr_html_() or True
    assert repr(summary).startswith("LogSummary(\nrows")


def test_where_episodes_begin():
    log = pd.DataFrame(
        {
            "episode": ["p", "q", "p", "q", "r", "s"],
            "step": [2, 1, 1, 2, 1, 1],
            "state": ["ill", "ill", "well", "well", "ill", "home"],
            "action": ["rest", "rest", "rest", "rest", "rest", None],
        }
    )
    complete = log.iloc[:5].assign(next_state="home")
    told = [complete, complete.drop(columns="step"), complete.assign(step="monday")]  # steps that order nothing
    assert [from_log(each, 0.9, terminal=["home"], rewards=0)[0].summary.starts for each in told] == [
        {"ill": 2 / 3, "well": 1 / 3},
        {"ill": 1.0},
        {"ill": 1.0},
    ]
    summary = from_log(log, 0.9, terminal=["home"], rewards=0, end="home")[0].summary  # the fourth begins where it ends
    assert summary.starts == {"ill": 2 / 3, "well": 1 / 3}
    assert "episodes  4, which begin in 'ill' 67%, 'well' 33%" in str(summary)
    model, _ = from_log(complete.drop(columns="episode"), 0.9, terminal=["home"], rewards=0)
    assert model.summary.starts is None
    model, _ = from_log(complete, 0.9, terminal=["home"], rewards=0)
    assert model.start_distribution(model.summary.starts).tolist() == [0.0, 2 / 3, 1 / 3]


def test_starts_in_states_that_were_left_out():
    rows = [("a", 0, "b")] * 5 + [("b", 0, "end")] * 5 + [("c", 1, "b")]
    log = pd.DataFrame(rows, columns=["state", "action", "next_state"]).assign(episode=range(11))
    model, _ = from_log(log, 0.9, terminal=["end"], rewards=0)
    assert model.summary.starts == {"a": 5 / 11, "b": 5 / 11, "c": 1 / 11}
