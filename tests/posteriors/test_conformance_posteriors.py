"""What every posterior must do. A new one joins by an entry in ``POSTERIORS``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.errors import PosteriorError, StateFileError
from prudent.posteriors import (
    BetaPosterior,
    DirichletPosterior,
    LinearGaussianPosterior,
    LogisticPosterior,
    NormalPosterior,
    PoissonPosterior,
    Posterior,
)

GOLDEN = Path(__file__).parents[1] / "golden"
FALSE_ALARM = 1e-7  # of a whole test, if the posterior is right


@dataclass(frozen=True)
class Case:
    """A posterior before data, another prior, and data: the columns of observations, equally long."""

    make: Any
    other: Any
    data: tuple[Any, ...]
    exact: bool = True  # whether the order of the data does not matter

    def rows(self, begin: int, end: int) -> tuple[Any, ...]:
        """Return the observations from begin to end."""
        return tuple(_cut(column, begin, end) for column in self.data)

    def row(self, t: int) -> tuple[Any, ...]:
        """Return one observation."""
        return tuple(_cut(column, t, None) for column in self.data)


def _cut(column, begin, end):
    if isinstance(column, tuple):
        return tuple(_cut(part, begin, end) for part in column)
    return column[begin] if end is None else column[begin:end]


def _contexts():
    return np.random.default_rng(5).normal(size=(24, 2))


ALTERNATING = np.arange(24) % 2
POSTERIORS = {
    "dirichlet": Case(
        lambda: DirichletPosterior([[1.0, 0.5, 0.0], [1.0, 1.0, 2.0]]),
        lambda: DirichletPosterior([[1.0, 0.5, 0.0], [1.0, 1.0, 3.0]]),
        (ALTERNATING, np.arange(24) // 2 % 2, np.arange(1.0, 25.0)),
    ),
    "beta": Case(
        lambda: BetaPosterior(np.ones((2, 2)), 2.0),
        lambda: BetaPosterior(np.ones((2, 2)), 3.0),
        ((ALTERNATING, np.arange(24) // 2 % 2), np.arange(24) // 4 % 2),
    ),
    "normal": Case(
        lambda: NormalPosterior(np.zeros((2, 2)), 2.0, 0.5),
        lambda: NormalPosterior(np.zeros((2, 2)), 2.0, 1.0),
        ((ALTERNATING, np.arange(24) // 2 % 2), np.linspace(-1.0, 2.0, 24)),
    ),
    "linear": Case(
        lambda: LinearGaussianPosterior(2, [[2.0, 0.5], [0.5, 1.0]], 0.7, [0.1, -0.2]),
        lambda: LinearGaussianPosterior(2, 1.0, 0.7, [0.1, -0.2]),
        (_contexts(), np.linspace(-1.0, 2.0, 24)),
    ),
    "logistic": Case(
        lambda: LogisticPosterior(2, 2.0), lambda: LogisticPosterior(2, 1.0), (_contexts(), ALTERNATING), exact=False
    ),
    "poisson": Case(
        lambda: PoissonPosterior(2, 2.0), lambda: PoissonPosterior(2, 1.0), (_contexts(), ALTERNATING), exact=False
    ),
}


@pytest.fixture(params=sorted(POSTERIORS))
def case(request):
    """One of the posteriors."""
    return POSTERIORS[request.param]


def test_every_posterior_is_registered():
    public = {getattr(pr.posteriors, name) for name in pr.posteriors.__all__}
    public = {kind for kind in public if issubclass(kind, Posterior) and kind is not Posterior}
    assert public == {type(case.make()) for case in POSTERIORS.values()}


def test_a_batch_is_the_same_as_one_by_one(case):
    batch, single = case.make().update(*case.data), case.make()
    for t in range(24):
        assert single.update(*case.row(t)) is single
    np.testing.assert_allclose(single.mean(), batch.mean(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(single.covariance(), batch.covariance(), rtol=1e-12, atol=1e-12)


def test_updated_and_copies_leave_the_original(case):
    posterior = case.make().update(*case.rows(0, 9))
    before, twin = posterior.copy(), posterior.copy()
    assert twin == posterior
    assert posterior.updated(*case.rows(9, 24)) == twin.update(*case.rows(9, 24))
    assert posterior == before != twin


def test_merged_data_is_all_data(case):
    one, two = case.make().update(*case.rows(0, 10)), case.make().update(*case.rows(10, 24))
    merged, together = one.merge(two), case.make().update(*case.data)
    assert one == case.make().update(*case.rows(0, 10))
    if case.exact:
        np.testing.assert_allclose(merged.mean(), together.mean(), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(merged.covariance(), together.covariance(), rtol=1e-12, atol=1e-12)
    else:  # learned online, up to its approximation; both know more than either
        assert (merged.variance() < np.minimum(one.variance(), two.variance())).all()
    assert case.make().merge(case.make()) == case.make()
    with refused(PosteriorError, "prior-mismatch"):
        one.merge(case.other())
    with refused(PosteriorError, "wrong-type"):
        one.merge(object())


def test_files_hold_the_whole_posterior(case, tmp_path):
    posterior = case.make().update(*case.data)
    posterior.save(tmp_path / "state")
    loaded = type(posterior).load(tmp_path / "state")
    assert loaded == posterior
    assert repr(loaded) == repr(posterior)
    other = case.make()
    assert other.load(tmp_path / "state") is other == posterior
    content = bytearray((tmp_path / "state").read_bytes())
    content[-40] ^= 1
    (tmp_path / "state").write_bytes(bytes(content))
    with refused(StateFileError, "damaged-file"):
        type(posterior).load(tmp_path / "state")


def test_repr_names_the_class_and_a_summary(case):
    posterior = case.make()
    text = repr(posterior)
    assert text.startswith(f"{type(posterior).__name__}(")
    assert all(f"{name}=" in text for name in posterior.summary())


def test_draws_have_the_moments(case, rng):
    """Means by z-scores, variances by the standard error of squares; each of the tests has its share of FALSE_ALARM."""
    posterior, n = case.make().update(*case.data), 20_000
    draws = posterior.sample(n, rng=rng).reshape(n, -1)
    mean, variance = posterior.mean().reshape(-1), posterior.variance().reshape(-1)
    varied = variance > 0.0
    assert (draws[:, ~varied] == mean[~varied]).all()
    limit = stats.norm.isf(FALSE_ALARM / (4 * varied.sum()))
    z = (draws.mean(axis=0) - mean)[varied] / np.sqrt(variance[varied] / n)
    assert abs(z).max() < limit
    squares = (draws - mean)[:, varied] ** 2
    z = (squares.mean(axis=0) - variance[varied]) / (squares.std(axis=0) / np.sqrt(n))
    assert abs(z).max() < 1.5 * limit  # squares are skewed: the limit of a normal law with room


@pytest.mark.parametrize("name", sorted(POSTERIORS))
def test_golden_files_load(name, tmp_path):
    """Files of state version 1, written once: the format stays readable, and what is saved again is the same file."""
    case, path = POSTERIORS[name], GOLDEN / f"posterior_{name}_1.state"
    expected = case.make().update(*case.data)
    loaded = type(expected).load(path)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    np.testing.assert_allclose(loaded.mean(), expected.mean(), rtol=1e-9)
    np.testing.assert_allclose(loaded.variance(), expected.variance(), rtol=1e-9)
