"""Tables of other people: their column names, their numbering, their files."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent.data.columns import SYNONYMS
from prudent.errors import DataError, ModelError

CRAAM = pd.DataFrame(
    [(0, 0, 0, 0.5, 1.0), (0, 0, 1, 0.5, 3.0), (0, 1, 1, 1.0, 0.0), (1, 0, 0, 1.0, 2.0)],
    columns=["idstatefrom", "idaction", "idstateto", "probability", "reward"],
)


def test_no_column_name_stands_for_two_things():
    names = [name for others in SYNONYMS.values() for name in others]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("shift", [0, 1, 7])
def test_ids_never_shift(shift, tmp_path):
    """Ids from 0, from 1 or from 7: the labels are those of the table, the arrays are the same."""
    ids = ["idstatefrom", "idaction", "idstateto"]
    table = CRAAM.assign(**{name: CRAAM[name] + shift for name in ids})
    table.to_csv(tmp_path / "mdp.csv", index=False)
    table.to_parquet(tmp_path / "mdp.parquet")
    plain = pr.MDP.from_table(CRAAM, 0.9)
    for given in (table, tmp_path / "mdp.csv", str(tmp_path / "mdp.parquet"), table.sample(frac=1, random_state=2)):
        mdp = pr.MDP.from_table(given, 0.9)
        np.testing.assert_array_equal(mdp.dense(), plain.dense())
        np.testing.assert_array_equal(mdp.reward, plain.reward)
        assert mdp.states == (shift, shift + 1)
        assert mdp.state_index(shift + 1) == 1
    assert pr.solve(plain).value.tolist() == pr.solve(pr.MDP.from_table(table, 0.9)).value.tolist()


def test_known_models_add_up_what_uncertain_ones_keep_apart():
    rows = [
        ("x", "go", "x", 0.25, 1.0),
        ("x", "go", "x", 0.25, 3.0),
        ("x", "go", "y", 0.5, 0.0),
        ("y", "go", "x", 1, 0),
    ]
    table = pd.DataFrame(rows, columns=["s", "a", "s'", "p", "r"])
    mdp = pr.MDP.from_table(table, 0.9)
    assert mdp.dense()[0, 0].tolist() == [0.5, 0.5]
    assert mdp.reward[0, 0] == pytest.approx(1.0)
    model = pr.UncertainMDP.from_table(table, 0.9)
    assert model.outcomes == ((("x", 1.0), ("x", 3.0), "y"), ("x",))
    assert model.sources == (("x", "go"), ("y", "go"))
    assert model.reward[0, 0].tolist() == [1.0, 3.0, 0.0]
    assert model.notes == ("the probabilities of the table were not used: they are what a posterior is about",)
    same = model.mdp([[0.25, 0.25, 0.5], [1, 0, 0]])
    np.testing.assert_allclose(same.dense(), mdp.dense())
    np.testing.assert_allclose(same.reward, mdp.reward)
    twice = pr.UncertainMDP.from_table(pd.concat([table, table]).drop(columns="p"), 0.9)
    assert twice == model  # what is listed twice is one outcome
    assert twice.notes == ()


def test_tables_of_dynamics_from_files(tmp_path):
    rows = [("up", "bet", "win", "up", 1.0), ("up", "bet", "loss", "down", -1.0), ("down", "bet", "win", "up", 1.0)]
    rows.append(("down", "bet", "loss", "down", -1.0))
    model = pr.UncertainMDP.from_table(rows, 0.9)
    frame = pd.DataFrame(rows, columns=["from", "a", "outcome", "to", "r"])
    frame.to_csv(tmp_path / "game.csv", index=False)
    assert pr.UncertainMDP.from_table(tmp_path / "game.csv", 0.9) == model
    told = frame.rename(columns={"outcome": "what"})
    assert pr.UncertainMDP.from_table(told, 0.9, columns={"outcome": "what"}) == model
    ending = frame.assign(to=["up", None, "up", None])
    assert pr.UncertainMDP.from_table(ending, 0.9).ends


def test_a_table_of_many_models_is_no_model():
    table = pd.concat([CRAAM.assign(idoutcome=i) for i in range(3)])
    with refused(ModelError, "several-models", argument="table"):
        pr.MDP.from_table(table, 0.9)
    assert pr.MDP.from_table(CRAAM.assign(idoutcome=5), 0.9) == pr.MDP.from_table(CRAAM, 0.9)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, ""])
def test_missing_rewards_are_named_by_row_and_column(missing):
    table = CRAAM.astype({"reward": object}).rename(columns={"reward": "r"})
    table.loc[2, "r"] = missing
    with refused(ModelError, "not-finite", column="reward", row=2):
        pr.MDP.from_table(table, 0.9)
    with refused(ModelError, "not-finite", column="reward", row=2):
        pr.UncertainMDP.from_table(table.set_axis(list("abcd")), 0.9)


def test_files_name_the_line(tmp_path):
    CRAAM.astype({"probability": object}).replace(0.5, "half").to_csv(tmp_path / "mdp.csv", index=False)
    with refused(ModelError, "not-finite", column="probability", line=2):
        pr.MDP.from_table(tmp_path / "mdp.csv", 0.9)
    CRAAM.assign(probability=[0.5, 0.6, 1.0, -1.0]).to_csv(tmp_path / "mdp.csv", index=False)
    with refused(ModelError, "probability-range", column="probability", line=5):
        pr.MDP.from_table(tmp_path / "mdp.csv", 0.9)


def test_logs_of_a_model_from_files(tmp_path):
    model = pr.UncertainMDP.from_mdp(pr.MDP.from_table(CRAAM, 0.9))
    log = pd.DataFrame({"idstatefrom": [0, 0, 1], "idaction": [0, 1, 0], "idstateto": [1, 1, 0], "count": [2, 1, 0.5]})
    log.to_csv(tmp_path / "log.csv", index=False)
    posterior = pr.DirichletPosterior.from_log(model, tmp_path / "log.csv")
    np.testing.assert_array_equal(posterior.counts, [[1, 3], [2, 0], [1.5, 0]])
    log.assign(idaction=[0, 5, 0]).to_csv(tmp_path / "log.csv", index=False)
    with refused(DataError, "unknown-action", column="action", line=3):
        pr.DirichletPosterior.from_log(model, tmp_path / "log.csv")
