"""State files of earlier versions, written by the code of their time, go on as they would have then."""

from pathlib import Path

import numpy as np

from prudent.bandits import SharedLinearBandit

DATA = Path(__file__).parents[1] / "golden"


def test_a_shared_bandit_of_version_1():
    bandit = SharedLinearBandit.load(DATA / "shared_version_1.state")
    assert bandit.decisions == 12
    assert bandit.rewards == 24
    assert bandit.items == {7: 4, "b": 10, "a": 10}
    assert bandit.features is None
    assert bandit.half_life is None
    mean, sd = bandit.coefficients()  # as that version said
    np.testing.assert_allclose(mean, [1.627436788404276, 0.23852717864145462, -0.34415154177218854], rtol=1e-12)
    np.testing.assert_allclose(sd, [0.5890645028662541, 0.608919299366199, 0.5905965411809881], rtol=1e-12)
    decision = bandit.select([[1.0, 2.0], [0.5, 0.5], [2.0, 1.0]], arms=["a", "b", "c"], top=3)
    assert decision.slate == ("b", "c", "a")
    np.testing.assert_allclose(decision.scores, [1.537939558473896, 1.7603396039149968, 1.3222425031936273], rtol=1e-12)
    again = SharedLinearBandit.from_bytes(bandit.to_bytes())
    assert again.to_bytes() == bandit.to_bytes()
    bandit.update({"price": 1.0, "size": 2.0}, 3.0, "a").forget(0.5)
    assert bandit.features == ("price", "size")
