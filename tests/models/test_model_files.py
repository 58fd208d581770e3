"""Files of models: written files are read back equal, other programs' files are read, damaged ones are refused."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import tarfile

import numpy as np
import pytest
import umbi
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import prudent as pr
from prudent.errors import ModelError, ParameterError


def random_model(rng, kind):
    """Return a model with single rewards, with names and inadmissible pairs, or with steps that end."""
    S, A = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    P = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.7)
    P[..., 0] += 1.0 - P.sum(axis=2)
    admissible = rng.random((S, A)) < 0.7
    admissible[np.arange(S), np.arange(S) % A] = True
    if kind == "single rewards":
        return pr.MDP(P, rng.normal(size=(S, A, S)), 0.9)
    if kind == "names":
        names = [("room", i) for i in range(S)]
        actions = ["go on", "stop", 3][:A]
        admissible[0, :] = True
        return pr.MDP(P, rng.normal(size=(S, A)), 0.5, admissible=admissible, states=names, actions=actions)
    ends = rng.random((S, A)) * 0.5 * (rng.random((S, A)) < 0.5)
    return pr.MDP(P * (1.0 - ends[..., None]), rng.normal(size=(S, A)), 1.0, termination=ends)


def same(one, other):
    """Compare two models, rewards of single transitions included."""
    assert one == other
    singles = (one.transition_reward, other.transition_reward)
    assert (singles[0] is None) == (singles[1] is None)
    if singles[0] is not None:
        np.testing.assert_allclose(singles[0].toarray(), singles[1].toarray(), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("kind", ["single rewards", "names", "ends"])
@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 2**32))
def test_written_files_are_read_back_equal(kind, number, tmp_path_factory):
    mdp = random_model(np.random.default_rng(number), kind)
    folder = tmp_path_factory.mktemp("models")
    mdp.to_umb(folder / "a.umb")
    same(pr.MDP.from_umb(folder / "a.umb"), mdp)
    mdp.to_prism(folder / "a")
    same(pr.MDP.from_prism(folder / "a.tra"), mdp)
    if mdp.admissible.all() and mdp.termination is None:
        mdp.to_petsc(folder / "p", folder / "r", costs=True)
        back = pr.MDP.from_petsc(folder / "p", folder / "r", mdp.discount, costs=True)
        np.testing.assert_array_equal(back.transition.toarray(), mdp.transition.toarray())
        np.testing.assert_array_equal(back.reward, mdp.reward)


def test_gymnasium_models_keep_their_values(tmp_path):
    lake = pr.MDP.from_gymnasium("FrozenLake-v1", 0.99)
    lake.to_umb(tmp_path / "lake.umb", start=4)
    same(pr.MDP.from_umb(tmp_path / "lake.umb"), lake)
    lake.to_petsc(tmp_path / "p", tmp_path / "r")
    back = pr.solve(pr.MDP.from_petsc(tmp_path / "p", tmp_path / "r", 0.99))
    np.testing.assert_allclose(back.value[:-1], pr.solve(lake).value, atol=1e-9)
    assert abs(back.value[-1]) < 1e-12  # the end


def test_outcomes_with_several_rewards_keep_their_distribution(tmp_path):
    rows = [
        ("a", "go", "a", 0.25, 0.0),
        ("a", "go", "a", 0.25, 4.0),
        ("a", "go", "b", 0.5, 1.0),
        ("b", "go", "b", 1, 0),
    ]
    mdp = pr.MDP.from_table(rows, 0.9)
    mdp.to_umb(tmp_path / "a.umb")
    back = pr.MDP.from_umb(tmp_path / "a.umb").outcomes()
    for one, other in zip(back, mdp.outcomes(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15)


def test_the_index_says_what_other_programs_need(tmp_path):
    mdp = random_model(np.random.default_rng(3), "ends")
    mdp.to_umb(tmp_path / "a.umb")
    umb = umbi.umb.read(tmp_path / "a.umb", strict=True)
    system = umb.index.transition_system
    S = mdp.n_states
    assert (system.num_states, system.num_choices) == (S + 1, S * mdp.n_actions + 1)
    assert umb.annotations["aps"]["end"]["states"][: S + 1] == [False] * S + [True]
    back = umbi.ats.read(tmp_path / "a.umb")
    assert back.num_initial_states == 1


def three_states(probabilities):
    """Return a model of umbi's with a state that has no choice."""
    ats = umbi.ats.ExplicitAts()
    ats.time = umbi.ats.TimeType.DISCRETE
    ats.num_players = 1
    for _ in range(3):
        ats.add_state()
    ats.set_initial_states([0])
    ats.num_choice_actions = 2
    ats.choice_action_to_name = ["north", "south"]
    for state, action, branches in ((0, 0, probabilities), (0, 1, {2: 1}), (1, 1, {0: 1})):
        choice = ats.add_state_choice(state=state)
        choice.action = action
        for target, chance in branches.items():
            choice.add_branch(target=target, prob=chance)
    return ats


@pytest.mark.parametrize("exact", [False, True])
def test_files_of_other_programs_are_read(tmp_path, exact):
    from fractions import Fraction

    quarter = Fraction(1, 4) if exact else 0.25
    umbi.ats.write(three_states({1: quarter, 2: 1 - quarter}), tmp_path / "a.umb")
    mdp = pr.MDP.from_umb(tmp_path / "a.umb", 0.9)
    assert mdp.actions == ("north", "south")
    np.testing.assert_array_equal(mdp.dense()[0], [[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]])
    assert mdp.terminal.tolist() == [False, False, True]
    assert len(mdp.notes) == 2  # no rewards, and a state without a choice
    assert not mdp.admissible[1, 0]


def test_states_are_called_by_their_variables(tmp_path):
    ats = three_states({1: 0.5, 2: 0.5})
    ats.variable_valuations = umbi.ats.variable_valuations.EntityClassValuations()
    values = umbi.ats.variable_valuations.EntityValuations()
    ats.variable_valuations.set_state_valuations(values)
    x, y, lit, heat = (values.add_variable(name) for name in ("x", "y", "lit", "heat"))
    rows = [(-3, 700, True, 0.5), (12, 1, False, -1e300), (0, 0, True, 0.1)]
    for state, row in enumerate(rows):
        values.set_entity_valuation(state, dict(zip((x, y, lit, heat), row, strict=True)))
    umbi.ats.write(ats, tmp_path / "a.umb")
    mdp = pr.MDP.from_umb(tmp_path / "a.umb", 0.9)
    assert list(mdp.states) == [f"x={a}, y={b}, lit={c}, heat={d}" for a, b, c, d in rows]


def test_rewards_of_states_choices_and_branches_add_up(tmp_path):
    mdp = pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 2.0], 0.9)
    mdp.to_umb(tmp_path / "a.umb")
    values = {"states": [10.0, 20.0], "choices": [1.0, 2.0], "branches": [0.1, 0.3, 0.5]}
    forged(tmp_path / "a.umb", {f"annotations/rewards/reward/{k}/values.bin": np.array(v) for k, v in values.items()},
           lambda index: index["annotations"]["rewards"]["reward"].update({"applies-to": list(values)}))  # fmt: skip
    back = pr.MDP.from_umb(tmp_path / "a.umb")
    np.testing.assert_allclose(back.reward[:, 0], [11.2, 22.5], rtol=1e-15)
    np.testing.assert_allclose(back.transition_reward.toarray(), [[11.1, 11.3], [0.0, 22.5]], rtol=1e-15)
    assert (pr.MDP.from_umb(tmp_path / "a.umb", costs=True).reward == -back.reward).all()


def forged(path, arrays=None, change=None, without=()):
    """Rewrite a UMB file with other members."""
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    index = json.loads(members["index.json"])
    if change is not None:
        change(index)
    members["index.json"] = json.dumps(index).encode()
    members |= {name: array if isinstance(array, bytes) else array.tobytes() for name, array in (arrays or {}).items()}
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            if name not in without:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


def system(**values):
    """Return a change of the index."""
    return lambda index: index["transition-system"].update(
        {name.replace("_", "#", 1) if name[0] == "_" else name: v for name, v in values.items()}
    )


FORGERIES = {
    "a game": ({}, system(_players=2), ()),
    "rates": ({}, system(time="stochastic"), ()),
    "observations": ({}, system(_observations=3), ()),
    "negative size": ({}, system(_states=-1), ()),
    "huge size": ({}, system(_branches=10**15), ()),
    "size no number": ({}, system(_choices="many"), ()),
    "intervals": ({}, system(**{"branch-probability-type": {"type": "double-interval", "size": 128}}), ()),
    "version": ({}, lambda index: index.update({"format-version": 7}), ()),
    "no system": ({}, lambda index: index.pop("transition-system"), ()),
    "target": ({"branch-to-target.bin": np.array([0, 9, 1], "<u8")}, None, ()),
    "offsets": ({"choice-to-branches.bin": np.array([0, 7, 3], "<u8")}, None, ()),
    "short": ({"branch-to-probability.bin": b"\0" * 23}, None, ()),
    "action": ({"actions/choices/values.bin": np.array([0, 4], "<u4")}, None, ()),
    "no targets": ({}, None, ("branch-to-target.bin",)),
    "no index": ({}, None, ("index.json",)),
    "zero denominator": (
        {"branch-to-probability.bin": np.array([[1, 2], [1, 0], [1, 1]], "<i8")},
        system(**{"branch-probability-type": {"type": "rational", "size": 128}}),
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGERIES)
def test_what_is_no_known_model_is_refused(tmp_path, what):
    path = tmp_path / "a.umb"
    pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 2.0], 0.9).to_umb(path)
    forged(path, *FORGERIES[what])
    with refused(ModelError, "wrong-format", path=str(path)):
        pr.MDP.from_umb(path)


def leaves(value, path=()):
    """Yield the path of every value in JSON."""
    yield path
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))


def test_an_index_of_any_form_is_read_or_refused(tmp_path):
    path = tmp_path / "a.umb"
    pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 2.0], 0.9, states=["a", "b"]).to_umb(path)
    content = path.read_bytes()
    with tarfile.open(path) as archive:
        index = json.loads(archive.extractfile("index.json").read())
    for place in [place for place in leaves(index) if place]:
        for other in (None, -1, 10**40, 1.5, "x", [], {}, [[]], True):

            def change(content, place=place, other=other):
                for key in place[:-1]:
                    content = content[key]
                content[place[-1]] = other

            path.write_bytes(content)
            forged(path, change=change)
            with contextlib.suppress(ModelError, ParameterError):
                assert pr.MDP.from_umb(path).n_states == 2


def test_damaged_archives_are_refused(tmp_path, rng):
    path = tmp_path / "a.umb"
    mdp = random_model(rng, "names")
    mdp.to_umb(path)
    content = path.read_bytes()
    for size in (0, 1, 10, len(content) // 2, len(content) - 9):
        path.write_bytes(content[:size])
        with refused(ModelError, "wrong-format"):
            pr.MDP.from_umb(path)
    for _ in range(200):  # a flipped byte is refused, or it was in a header that says nothing about the model
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            found = pr.MDP.from_umb(path)
        except (ModelError, ParameterError):
            continue
        assert found == mdp


def test_a_name_of_rewards_is_asked_for(tmp_path):
    path = tmp_path / "a.umb"
    pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 2.0], 0.9).to_umb(path)
    about = {"applies-to": ["choices"], "type": {"type": "int", "size": 16}, "alias": "energy used"}
    forged(path, {"annotations/rewards/energy/choices/values.bin": np.array([3, -4], "<i2")},
           lambda index: index["annotations"]["rewards"].update(energy=about))  # fmt: skip
    with refused(ParameterError, "missing-argument", argument="reward"):
        pr.MDP.from_umb(path)
    with refused(ParameterError, "unknown-name", argument="reward"):
        pr.MDP.from_umb(path, reward="time")
    for name in ("energy", "energy used"):
        assert pr.MDP.from_umb(path, reward=name, costs=True).reward.ravel().tolist() == [-3.0, 4.0]


def test_a_discount_is_asked_for(tmp_path):
    umbi.ats.write(three_states({1: 0.5, 2: 0.5}), tmp_path / "a.umb")
    with refused(ParameterError, "missing-argument", argument="discount"):
        pr.MDP.from_umb(tmp_path / "a.umb")


def test_names_that_files_cannot_hold_are_refused(tmp_path):
    mdp = pr.MDP([[[1.0]]], [1.0], 0.9, states=[frozenset({1})])
    for write in (mdp.to_umb, mdp.to_prism):
        with refused(ParameterError, "name-type", argument="states"):
            write(tmp_path / "a")
    assert not list(tmp_path.glob("*.umb"))


def test_inadmissible_pairs_have_no_place_in_matrices(tmp_path):
    P = [[[1.0, 0.0], [0.0, 1.0]]] * 2
    mdp = pr.MDP(P, [[1.0, 2.0]] * 2, 0.9, admissible=[[True, False], [True, True]])
    with refused(ParameterError, "inadmissible-action", state=0, action=1):
        mdp.to_petsc(tmp_path / "p", tmp_path / "r")


# -- PRISM -------------------------------------------------------------------------------------------------

TRA = """# a comment
3 4 6
0 0 1 0.25 go
0 0 2 0.75 go
0 1 0 1 stay
1 0 2 1 go
2 0 0 0.5 go
2 0 2 0.5 go
"""


def test_files_of_prism_are_read(tmp_path):
    (tmp_path / "m.tra").write_text(TRA)
    (tmp_path / "m.srew").write_text("3 1\n1 4.5\n")
    (tmp_path / "m.trew").write_text("3 4 2\n0 0 1 1\n2 0 0 2\n")
    mdp = pr.MDP.from_prism(tmp_path / "m.tra", 0.9)
    assert mdp.actions == ("go", "stay")
    np.testing.assert_array_equal(mdp.dense()[0], [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(mdp.reward, [[0.25, 0.0], [4.5, 0.0], [1.0, 0.0]])
    assert mdp.admissible.tolist() == [[True, True], [True, False], [True, False]]


def test_chains_of_prism_are_read(tmp_path):
    (tmp_path / "m.tra").write_text("2 3\n0 0 0.5\n0 1 0.5\n1 1 1\n")
    mdp = pr.MDP.from_prism(tmp_path / "m", 0.9)
    np.testing.assert_array_equal(mdp.dense()[:, 0], [[0.5, 0.5], [0.0, 1.0]])
    assert mdp.notes


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".tra", ""),
        (".tra", "# nothing\n"),
        (".tra", "3 4 5\n0 0 1 1 go\n"),
        (".tra", TRA.replace("3 4 6", "2 4 6")),
        (".tra", TRA.replace("0.25", "a quarter")),
        (".tra", TRA.replace("0 0 1 0.25", "0 0 1.5 0.25")),
        (".tra", TRA.replace("0 0 1 0.25", "0 -1 1 0.25")),
        (".trew", "3 4 1\n0 0 0 1\n"),
        (".trew", "3 4 1\n0 0 1 nan\n"),
        (".srew", "3 1\n7 1\n"),
        (".json", "{"),
    ],
)
def test_damaged_files_of_prism_are_refused(tmp_path, suffix, text):
    (tmp_path / "m.tra").write_text(TRA)
    (tmp_path / f"m{suffix}").write_text(text)
    with refused(ModelError, "wrong-format", path=str(tmp_path / f"m{suffix}")):
        pr.MDP.from_prism(tmp_path / "m", 0.9)
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_prism(tmp_path / "absent", 0.9)


# -- PETSc -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "dense"), list(itertools.product((4, 8), (False, True))))
def test_matrices_of_petsc_are_read(tmp_path, width, dense):
    P = np.array([[0.5, 0.5], [0.0, 1.0]])
    rows, columns = np.nonzero(P)
    stored = [-1] if dense else [columns.size, 2, 1, *columns]
    head = np.array([1211216, 2, 2, *stored], dtype=f">i{width}").tobytes()
    (tmp_path / "p").write_bytes(head + (P if dense else P[rows, columns]).astype(">f8").tobytes())
    reward = np.array([1211216, 2, 1, -1], dtype=">i4").tobytes() + np.array([1.0, 3.0], ">f8").tobytes()
    (tmp_path / "r").write_bytes(reward)
    mdp = pr.MDP.from_petsc(tmp_path / "p", tmp_path / "r", 0.9, costs=True)
    np.testing.assert_array_equal(mdp.dense()[:, 0], P)
    assert mdp.reward.ravel().tolist() == [-1.0, -3.0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK" * 20,
        np.array([1211216, 2, 2, 3, 2, 1, 0, 1], ">i4").tobytes(),
        np.array([1211216, -2, 2, -1], ">i4").tobytes(),
        np.array([1211216, 2, 2, 2, 1, 1, 0, 5], ">i4").tobytes() + bytes(16),
    ],
)
def test_damaged_matrices_are_refused(tmp_path, content):
    (tmp_path / "p").write_bytes(content)
    with refused(ModelError, "wrong-format", argument="reward"):
        pr.MDP.from_petsc(tmp_path / "p", tmp_path / "p", 0.9)


# -- bmdp-tool ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["single rewards", "names"])
@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 2**32))
def test_files_of_bmdp_tool_are_read_back_equal(kind, number, tmp_path_factory):
    rng, folder = np.random.default_rng(number), tmp_path_factory.mktemp("models")
    mdp = random_model(rng, kind)
    mdp.to_bmdp(folder / "known")
    same(pr.MDP.from_bmdp(folder / "known"), mdp)
    lower, upper = mdp.dense() * rng.random(mdp.dense().shape), np.minimum(mdp.dense() * 1.5, 1.0)
    names = {"states": mdp.states, "actions": mdp.actions, "admissible": mdp.admissible}
    reward = mdp.reward if mdp.transition_reward is None else rng.normal(size=lower.shape)
    terminal = {mdp.states[0]: -2.5} if mdp.n_states > 1 and mdp.admissible[1:].any(axis=0).all() else None
    wide = pr.IntervalMDP(lower, upper, reward, 0.9, terminal=terminal, **names)
    wide.to_bmdp(folder / "wide")
    assert pr.IntervalMDP.from_bmdp(folder / "wide") == wide
    assert pr.IntervalMDP.from_bmdp(folder / "wide", 0.5).model.discount == 0.5


BMDP = """3
2
1
2
0 0 0 0.1 0.4
0 0 2 0.5 1
0 1 1 1 1

1 0 0 0 0.5
1 0 2 0.5 1.0
2 0 2 1 1
"""


def test_files_of_bmdp_tool_are_read(tmp_path):
    """Without rewards, arriving in an accepting state is worth 1: at discount 1, the chance to get there."""
    (tmp_path / "m.txt").write_text(BMDP)
    found = pr.IntervalMDP.from_bmdp(tmp_path / "m.txt", 1.0)
    assert found.model.terminal.tolist() == [False, False, True]
    np.testing.assert_allclose(found.solve(horizon=2).value[0], [0.84, 0.8, 1.0], rtol=1e-12)
    paid = pr.IntervalMDP.from_bmdp(tmp_path / "m.txt", 0.9, reward=[0.0, 0.0, 1.0])
    assert paid.solve().value[2] == pytest.approx(10.0)
    assert not paid.model.admissible[2, 1]
    with refused(ModelError, "intervals", value=0.1):
        pr.MDP.from_bmdp(tmp_path / "m.txt", 1.0)
    with refused(ParameterError, "missing-argument", argument="discount"):
        pr.IntervalMDP.from_bmdp(tmp_path / "m.txt")


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("0 0 2 0.5 1\n", "0 0 2 0.5\n", 6),
        ("0 0 2 0.5 1\n", "0 0 2 0.5 1 7\n", 6),
        ("0 0 2 0.5 1\n", "0 0 2 0.5 1 7 8\n", 6),
        ("0 0 2 0.5 1\n", "0 0 3 0.5 1\n", 6),
        ("0 0 2 0.5 1\n", "0 0 two 0.5 1\n", 6),
        ("0 0 2 0.5 1\n", "0 0 2 half 1\n", 6),
        ("1 0 2 0.5 1.0", "1 0 2 0.5 0.4", 10),
        ("1 0 2 0.5 1.0", "1 0 2 nan 1.0", 10),
        ("1 0 2 0.5 1.0", "1 0 0 0.5 1.0", 10),
        ("1 0 2 0.5 1.0", "1 2 2 0.5 1.0", 10),
        ("3\n2\n1\n2\n", "3\n2\n1\n3\n", 4),
        ("3\n2\n1\n2\n", "3\n2\nx\n2\n", 3),
        (BMDP[6:], "", 4),
    ],
)
def test_damaged_files_of_bmdp_tool_are_refused(tmp_path, before, after, line):
    assert before in BMDP
    (tmp_path / "m.txt").write_text(BMDP.replace(before, after))
    with refused(ModelError, "wrong-format", line=line):
        pr.IntervalMDP.from_bmdp(tmp_path / "m.txt", 1.0)


def test_steps_that_end_have_no_place_in_bmdp_files(tmp_path):
    mdp = pr.MDP([[[0.5]]], [[1.0]], 0.9, termination=[[0.5]])
    with refused(ParameterError, "unwritable-step", argument="path"):
        mdp.to_bmdp(tmp_path / "m.txt")


def test_terminal_states_in_matrices_end_whatever_is_done(rng, tmp_path):
    """PETSc's files have every action in every state; the values stay, and read again they are written the same."""
    model = pr.UncertainMDP.direct(rng.normal(size=(5, 3)), 0.9, terminal={4: 3.0, 1: -1.0})
    mdp = model.mdp(model.with_end(rng.dirichlet(np.ones(5), 9)))
    mdp.to_petsc(tmp_path / "p", tmp_path / "r")
    again = pr.MDP.from_petsc(tmp_path / "p", tmp_path / "r", 0.9)
    np.testing.assert_allclose(pr.solve(again).value[:5], pr.solve(mdp).value, atol=1e-9)
    again.to_petsc(tmp_path / "p2", tmp_path / "r2")
    for name in ("p", "r"):
        assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}2").read_bytes()
