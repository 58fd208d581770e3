"""Posteriors in files: exact, with their names, and suspicious of everything that is not theirs."""

import warnings

import numpy as np
import pytest
from _forgery import forged, opened, sealed
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError, StateFileError


def ward():
    model = pr.UncertainMDP.direct(
        [[0.0, 0.1], [1.0, 0.9], [0.0, 0.0]],
        0.9,
        support=np.array([[[1, 1, 0], [0, 1, 1]], [[1, 1, 1], [0, 1, 0]], [[1, 1, 1], [1, 1, 1]]]),
        states=["ill", ("well", 2), 7],
        actions=["wait", True],
        terminal={7: -1.0},
    )
    return pr.DirichletPosterior.for_model(model, 0.5).update(("ill", "wait"), ("well", 2), 3)


def made():
    rng = np.random.default_rng(1)
    coin = pr.UncertainMDP.from_dynamics(lambda s, a, k: (0, k), [0], ["toss"], [1, 2, 4], 0.9)
    return [
        pr.DirichletPosterior([[1.0, 2.0], [0.25, 0.0]]).update(0, 1, 2.5),
        pr.DirichletPosterior([[1, 2], [3, 0]], sources=["a", ("b", 1.5)], outcomes=[["x", None], [False]]),
        pr.DirichletPosterior.for_model(coin).update(0, [1, 4, 4]),
        ward(),
        pr.posteriors.BetaPosterior(np.ones((2, 3)), 2.0).update((0, [1, 2]), [1, 0]),
        pr.posteriors.BetaPosterior(1.0, 2.0).update((), 1),
        pr.posteriors.NormalPosterior(np.zeros(3), [1.0, 2.0, 3.0], 0.5).update([0, 2, 2], [1.0, -4.0, 1e-3]),
        pr.posteriors.NormalPosterior(0.5, 1.0, 1.0),
        pr.posteriors.LinearGaussianPosterior(3, 2.0, 0.5).update(rng.normal(size=(20, 3)), rng.normal(size=20)),
        pr.posteriors.LinearGaussianPosterior(2, [[2.0, 1.0], [1.0, 3.0]]),
    ]


@pytest.mark.parametrize("posterior", made(), ids=repr)
def test_loading_keeps_everything(posterior, tmp_path):
    path = tmp_path / "posterior.state"
    posterior.save(path)
    again = type(posterior).load(path)
    assert again == posterior
    np.testing.assert_array_equal(again.mean(), posterior.mean())
    np.testing.assert_array_equal(again.sample(3, rng=1), posterior.sample(3, rng=1))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    if isinstance(posterior, pr.DirichletPosterior):
        assert (again.sources, again.outcomes) == (posterior.sources, posterior.outcomes)
        assert again.merge(posterior).sources == posterior.sources
    other = posterior.copy()
    assert other.load(path) is other


def test_names_still_work_after_loading(tmp_path):
    ward().save(tmp_path / "p")
    again = pr.DirichletPosterior.load(tmp_path / "p")
    expected = ward().update([("ill", True), (("well", 2), "wait")], [7, "ill"])
    assert again.update([("ill", True), (("well", 2), "wait")], [7, "ill"]) == expected
    odd = pr.DirichletPosterior([[1.0]], sources=[frozenset({1})])
    with refused(ParameterError, "unsaved-name"):
        odd.save(tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_other_files_are_refused(tmp_path):
    pr.posteriors.BetaPosterior(1.0, 1.0).save(tmp_path / "beta")
    with refused(StateFileError, "wrong-kind"):
        pr.DirichletPosterior.load(tmp_path / "beta")
    (tmp_path / "csv").write_text("a,b")
    with refused(StateFileError, "wrong-format"):
        pr.posteriors.BetaPosterior.load(tmp_path / "csv")
    with pytest.raises(FileNotFoundError):
        pr.posteriors.BetaPosterior.load(tmp_path / "none")
    content = (tmp_path / "beta").read_bytes()
    (tmp_path / "beta").write_bytes(content[:-1])
    with refused(StateFileError, "damaged-file"):
        pr.posteriors.BetaPosterior.load(tmp_path / "beta")
    header, _ = opened(content)
    header["version"] = 99
    (tmp_path / "beta").write_bytes(sealed(header, content[-64:-32]))
    with refused(StateFileError, "wrong-version"):
        pr.posteriors.BetaPosterior.load(tmp_path / "beta")


def test_forged_files_are_refused_or_work(tmp_path, rng):
    """Every field and every number changed at random, with a valid checksum: refused, or a posterior like any other."""
    good, path = made(), tmp_path / "forged"
    contents = []
    for posterior in good:
        posterior.save(path)
        contents.append((type(posterior), path.read_bytes()))
    loaded = 0
    for _ in range(600):
        kind, content = contents[rng.integers(len(contents))]
        bad = forged(content, rng)
        path.write_bytes(bad)
        try:
            one = kind.load(path)
        except StateFileError:
            continue
        loaded += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isfinite(one.mean()).all()
            assert (one.variance() >= 0.0).all()
            one.sample(2, rng=0)
            one.save(tmp_path / "again")
            assert kind.load(tmp_path / "again") == one
            if kind is pr.DirichletPosterior:
                sources, outcomes = one.sources, one.outcomes
                b = 0
                k = int(np.argmax(one.counts[b]))
                one.update(b if sources is None else sources[b], k if outcomes is None else outcomes[b][k])
    assert loaded > 0
