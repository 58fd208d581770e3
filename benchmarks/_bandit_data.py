"""Datasets as bandits, none of which is downloaded: of scikit-learn, statsmodels, river and coba, real and generated.

A row of features is a context, all features with mean 0 and sd 1. In a classification an arm is a class, and the right
one pays 1. Numbers to be predicted are cut at their terciles into three classes. In the synthetics of coba every arm
has a reward for every context. One pass through ``STEPS`` rows at most, in another order for each run.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

from prudent.envs import classification

STEPS = 500
_ROWS = 4000  # of a dataset, at most


class PaidRows:
    """Rows of features [N, D] with the rewards [N, A] of all arms, in another order for each run."""

    def __init__(self, points: np.ndarray, rewards: np.ndarray, order: np.ndarray | None = None) -> None:
        self.points, self.rewards = points, rewards
        self.order = np.arange(len(points)) if order is None else order
        self.steps, self.dim, self.n_arms = len(points), points.shape[1], rewards.shape[1]

    def start(self, rng: np.random.Generator) -> PaidRows:
        return PaidRows(self.points, self.rewards, rng.permutation(self.steps))

    def context(self, t: int, rng: np.random.Generator) -> np.ndarray:
        return self.points[self.order[t - 1]]

    def mean_rewards(self, t: int, context: Any) -> np.ndarray:
        return self.rewards[self.order[t - 1]]

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        return float(self.rewards[self.order[t - 1], arm])


def scaled(points: Any) -> np.ndarray:
    """Return features with mean 0 and sd 1; those that never change are left out."""
    points = np.asarray(points, dtype=np.float64)
    sd = points.std(axis=0)
    return (points[:, sd > 0.0] - points[:, sd > 0.0].mean(axis=0)) / sd[sd > 0.0]


def classes(points: Any, labels: Any) -> Any:
    """Return a classification of rows with at most ``_ROWS`` rows, drawn evenly."""
    points, labels = np.asarray(points), np.asarray(labels)
    keep = np.random.default_rng(0).permutation(len(labels))[:_ROWS]
    kept = labels[keep]
    return classification(scaled(points[keep]), kept.tolist())


def terciles(points: Any, target: Any) -> Any:
    """Return numbers to be predicted as three classes of equal size."""
    target = np.asarray(target, dtype=np.float64)
    return classes(points, np.searchsorted(np.quantile(target, [1 / 3, 2 / 3]), target))


def _sklearn(name: str, regression: bool = False, **options: Any) -> Callable[[], Any]:
    def load() -> Any:
        function = getattr(importlib.import_module("sklearn.datasets"), name)
        return (terciles if regression else classes)(*function(**options))

    return load


def _loaded(name: str, regression: bool = False) -> Callable[[], Any]:
    return _sklearn(f"load_{name}", regression, return_X_y=True)


def _made(name: str, regression: bool = False, **options: Any) -> Callable[[], Any]:
    return _sklearn(f"make_{name}", regression, random_state=1, **options)


def _statsmodels(name: str, split: Callable[[Any], tuple[Any, Any]]) -> Callable[[], Any]:
    return lambda: classes(*split(importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data))


def _modes(data: Any) -> tuple[Any, Any]:
    """Return what is known of four ways to travel, in one row for each person, and the one that was taken."""
    wide = data.pivot(index="individual", columns="mode", values=["ttme", "invc", "invt", "gc"])
    persons = data.groupby("individual")[["hinc", "psize"]].first()
    taken = data[data["choice"] == 1].set_index("individual")["mode"]
    return np.hstack([wide.to_numpy(), persons.to_numpy()]), taken.loc[wide.index].to_numpy()


def _river(name: str, synth: bool = False, **options: Any) -> Callable[[], Any]:
    def load() -> Any:
        module = importlib.import_module("river.datasets.synth" if synth else "river.datasets")
        rows: Iterable[Any] = getattr(module, name)(**options)
        taken = list(islice(rows, 2000))
        names = sorted(taken[0][0], key=str)
        values = [[row[key] for key in names] for row, _ in taken]
        columns = [np.asarray(column) for column in zip(*values, strict=True)]
        coded = [c if c.dtype.kind in "fiub" else np.unique(c, return_inverse=True)[1] for c in columns]
        return classes(np.column_stack(coded), [str(label) for _, label in taken])

    return load


def _coba(name: str) -> Callable[[], Any]:
    def load() -> Any:
        import coba

        make = getattr(coba.Environments, f"from_{name}_synthetic")
        rows = list(make(2000, n_actions=5, n_context_features=6, n_action_features=0, seed=1)[0].read())
        rewards = np.array([[row["rewards"](action) for action in row["actions"]] for row in rows])
        return PaidRows(scaled([row["context"] for row in rows]), rewards)

    return load


# a name begins with the module that must be there
DATASETS: dict[str, Callable[[], Any]] = {
    "sklearn iris": _loaded("iris"),
    "sklearn wine": _loaded("wine"),
    "sklearn cancer": _loaded("breast_cancer"),
    "sklearn digits": _loaded("digits"),
    "sklearn diabetes": _loaded("diabetes", regression=True),
    "sklearn moons": _made("moons", n_samples=1000, noise=0.25),
    "sklearn circles": _made("circles", n_samples=1000, noise=0.1, factor=0.5),
    "sklearn blobs": _made("blobs", n_samples=1000, centers=6, n_features=4, cluster_std=3.0),
    "sklearn quantiles": _made("gaussian_quantiles", n_samples=1000, n_features=4, n_classes=3),
    "sklearn hastie": _made("hastie_10_2", n_samples=1000),
    "sklearn classes, easy": _made(
        "classification", n_samples=1000, n_features=10, n_informative=5, n_classes=3, class_sep=1.5
    ),
    "sklearn classes, hard": _made(
        "classification", n_samples=1000, n_features=20, n_informative=10, n_classes=5, class_sep=0.8, flip_y=0.1
    ),
    "sklearn friedman": _made("friedman1", regression=True, n_samples=1000, noise=1.0),
    "statsmodels fair": _statsmodels(
        "fair", lambda data: (data.drop(columns="affairs").to_numpy(float), data["affairs"].to_numpy() > 0.0)
    ),
    "statsmodels anes96": _statsmodels(
        "anes96", lambda data: (data.drop(columns="vote").to_numpy(float), data["vote"].to_numpy(int))
    ),
    "statsmodels modechoice": _statsmodels("modechoice", _modes),
    "statsmodels randhie": _statsmodels(
        "randhie", lambda data: (data.drop(columns="mdvis").to_numpy(float), np.minimum(data["mdvis"].to_numpy(), 2))
    ),
    "statsmodels star98": _statsmodels(
        "star98",
        lambda data: (data.drop(columns=["NABOVE", "NBELOW"]).to_numpy(float), (data.NABOVE > data.NBELOW).to_numpy()),
    ),
    "river phishing": _river("Phishing"),
    "river bananas": _river("Bananas"),
    "river images": _river("ImageSegments"),
    "river sea": _river("SEA", synth=True, noise=0.1, seed=1),
    "river agrawal": _river("Agrawal", synth=True, classification_function=2, seed=1),
    "river hyperplane": _river("Hyperplane", synth=True, n_features=10, seed=1),
    "river rbf": _river(
        "RandomRBF", synth=True, n_classes=4, n_features=8, n_centroids=20, seed_model=1, seed_sample=1
    ),
    "river led": _river("LED", synth=True, noise_percentage=0.1, seed=1),
    "river waveform": _river("Waveform", synth=True, seed=1),
    "river sine": _river("Sine", synth=True, seed=1),
    "river stagger": _river("STAGGER", synth=True, seed=1),
    "river tree": _river(
        "RandomTree", synth=True, n_classes=3, n_num_features=5, n_cat_features=2, seed_tree=1, seed_sample=1
    ),
    "coba linear": _coba("linear"),
    "coba neighbours": _coba("neighbors"),
    "coba kernel": _coba("kernel"),
    "coba mlp": _coba("mlp"),
}
