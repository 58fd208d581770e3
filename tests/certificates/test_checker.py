"""The checker proves what solvers claim, in arithmetic of its own, and refuses everything else."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from _certificates import FORGERIES, files, forged, random_known, random_uncertain
from refusals import refused
from scipy import integrate, stats

import prudent as pr
from prudent.certificates import checker
from prudent.cli.main import main
from prudent.errors import ParameterError

SOURCE = Path(checker.__file__)


def test_it_stands_alone():
    tree = ast.parse(SOURCE.read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names) | {"flint"}
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
    assert len(SOURCE.read_text().splitlines()) <= 300


def test_solutions_of_known_models_are_proved(rng, tmp_path):
    for _ in range(40):
        assert checker.check(*files(random_known(rng), tmp_path)).startswith("optimal values within")


def test_solutions_under_a_posterior_are_proved(rng, tmp_path):
    for _ in range(4):
        assert checker.check(*files(random_uncertain(rng), tmp_path)).startswith("optimal values within")


def test_a_tail_next_to_the_lowest_outcome_is_proved(tmp_path):
    """The worst hundredth of this posterior is 1e-12 wide: steps of 1e-7 of it drown in the enclosure of integrals."""
    model = pr.UncertainMDP.direct([[-0.3], [0.1]], 0.9)
    solution = pr.BayesianRiskMDP(model, [[100.0, 1.0], [10000.0, 0.3]], 0.99).solve()
    assert checker.check(*files(solution, tmp_path)).startswith("optimal values within")


@pytest.mark.parametrize("size", [1e30, 1e81, 1e140])
@pytest.mark.parametrize("alpha", [0.9, -0.9])
def test_huge_counts_are_proved_and_forgeries_refused_without_integrals(size, alpha, tmp_path, monkeypatch):
    """Enclosures of these integrals took half a minute and proved nothing; the mean and the variance prove all."""
    monkeypatch.setattr(checker.Tail, "integral", None)
    model = pr.UncertainMDP.direct([[-0.3, 0.1], [0.1, 0.2]], 0.9)
    counts = np.array([[1.0, 2.0], [4.0, 2.0], [1.0, 1.0], [3.0, 5.0]]) * size
    made, certificate = files(pr.BayesianRiskMDP(model, counts, alpha).solve(), tmp_path)
    assert checker.check(made, certificate).startswith("optimal values within")
    record = json.loads(certificate)
    for shift in (1e-9, -1e-9):
        moved = record | {"value": [v + shift for v in record["value"]]}
        with pytest.raises(checker.RefusedError):
            checker.check(made, json.dumps(moved).encode())


@pytest.mark.parametrize("kind", FORGERIES)
def test_forgeries_are_refused(kind, rng, tmp_path):
    for make, times in ((random_known, 10), (random_uncertain, 1)):
        for _ in range(times):
            other = files(make(rng), tmp_path)[0]
            made = forged(kind, *files(make(rng), tmp_path), rng, other)
            if made is not None:
                with pytest.raises(checker.RefusedError):
                    checker.check(*made)


def test_values_of_a_policy_are_proved_as_such(tmp_path):
    mdp = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]], [[0.0, 1.0], [2.0, 0.0]], 0.9)
    worst = pr.evaluate(mdp, [1, 1])
    model, certificate = files(worst, tmp_path)
    assert checker.check(model, certificate).startswith("policy values within")
    claim = json.loads(certificate) | {"claim": "optimal"}
    with pytest.raises(checker.RefusedError):
        checker.check(model, json.dumps(claim).encode())


@pytest.mark.parametrize("alpha", [0.1, 0.9, 0.999])
@pytest.mark.parametrize("counts", [(0.4, 0.7), (3.0, 1.0), (200.0, 5000.0)])
def test_balls_contain_the_integral_of_a_beta(alpha, counts):
    """Two outcomes: G is an integral of a Beta distribution, which SciPy computes to about ten digits."""
    law = stats.beta(counts[1], counts[0])  # the share of the second outcome, whose value is 1
    tail = checker.Tail([checker.arb(0), checker.arb(1)], [checker.arb(each) for each in counts], alpha)
    x = tail.quantile()
    assert law.cdf(x) == pytest.approx(1.0 - alpha, rel=1e-8)
    loss = integrate.quad(lambda y: law.cdf(y), 0.0, x, epsabs=0.0, epsrel=1e-11)[0]
    ball = tail.gain(checker.arb(x))
    assert float(ball.rad()) < 1e-17
    assert float(ball.mid()) == pytest.approx(x - loss / (1.0 - alpha), abs=1e-9 * x / (1.0 - alpha))
    exact = pr.exact.cvar_dirichlet([0.0, 1.0], counts, alpha)
    assert tail.at_least(checker.arb(exact - 1e-12))
    assert not tail.at_least(checker.arb(exact + 1e-12))
    assert tail.at_most(checker.arb(exact + 1e-12))
    assert not tail.at_most(checker.arb(exact - 1e-12))


def test_rows_beyond_the_limit_are_counted_and_said(tmp_path):
    model = pr.UncertainMDP.direct(np.array([[1.0], [0.0]]), 0.9)
    parts = files(pr.BayesianRiskMDP(model, [[1, 2], [3, 4]], 0.9).solve(), tmp_path)
    assert "NOT CHECKED" not in checker.check(*parts)
    assert checker.check(*parts, rows=1).endswith("NOT CHECKED: 3 rows")


def test_outlandish_files_are_refused_and_not_obeyed(tmp_path):
    mdp = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]], [[0.0, 1.0], [2.0, 0.0]], 0.9)
    model, certificate = files(pr.solve(mdp), tmp_path)
    table = json.loads(model)
    changes = [
        {"n_states": 2**52},
        {"n_actions": 0},
        {"n_actions": -1},
        {"pairs": []},
        {"first": []},
        {"first": [0] * len(table["first"])},
        {"discount": 1.0},
        {"discount": "0.9"},
        {"probability": [-1.0] * len(table["probability"])},
        {"probability": [3.0] * len(table["probability"])},
        {"next_state": [10**9] * len(table["next_state"])},
        {"counts": [1.0], "begin": [], "source": [], "reward": []},
    ]
    for change in changes:
        forgery = json.dumps(table | change).encode()
        claim = json.loads(certificate) | {"model": checker.hashlib.sha256(forgery).hexdigest()}
        with pytest.raises(checker.RefusedError):
            checker.check(forgery, json.dumps(claim).encode())
    begun, deep = certificate.rstrip()[:-1], b"[" * 900 + b"]" * 900
    for content in (
        *(b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b"\xef\xbb\xbf" + certificate, certificate + b"{}"),
        begun + b', "error": 1e9}',  # a name that another reader may take from its first place
        *(begun + b', "remark": ' + remark + b"}" for remark in (b"NaN", b"-Infinity", b"9" * 10**6, b'"\xe9"')),
        *(
            certificate.replace(b'"value":', b'"value": ' + cell + b', "was":')
            for cell in (deep, b"1e999", b'"' + b"x" * 10**6 + b'"')
        ),
    ):
        with pytest.raises(checker.RefusedError) as said:
            checker.check(model, content)
        assert len(str(said.value)) < 250
        assert len(str(said.value).splitlines()) == 1


def test_the_command_and_the_script_say_the_same(tmp_path, capsys):
    solution = pr.solve(pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], 0.9))
    files(solution, tmp_path)
    arguments = [str(tmp_path / "model.json"), str(tmp_path / "certificate.json")]
    assert main(["verify", *arguments]) == 0
    told = capsys.readouterr().out
    assert told.startswith("yes: optimal values within")
    alone = subprocess.run([sys.executable, "-I", SOURCE, *arguments], capture_output=True, text=True, check=False)
    assert (alone.returncode, alone.stdout) == (0, told)
    pr.save(tmp_path / "decision", solution=solution)
    assert main(["verify", str(tmp_path / "decision"), arguments[1]]) == 0
    record = json.loads((tmp_path / "certificate.json").read_text())
    (tmp_path / "certificate.json").write_text(json.dumps(record | {"error": 0.0, "value": [0.0, 1.0]}))
    assert main(["verify", *arguments]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("no: ")
    assert main(["verify", arguments[0], str(tmp_path / "none.json")]) == 2


def test_what_has_no_certificate_is_refused(tmp_path):
    model = pr.UncertainMDP.direct(np.array([[1.0], [0.0]]), 0.9)
    problem = pr.BayesianRiskMDP(model, [[1, 2], [3, 4]], risk=pr.VaR(0.9))
    plan = pr.BayesianRiskMDP(model, [[1, 2], [3, 4]], 0.9).solve(horizon=3)
    average = pr.solve(model.mdp([[0.5, 0.5], [0.5, 0.5]]), objective="average")
    for solution in (problem.solve(), plan, average):
        with refused(ParameterError, "no-certificate"):
            solution.certificate(tmp_path / "certificate.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_models_and_forgeries(part, rng, tmp_path):
    """500 models and 500 forgeries of each part, about 20 s: each certificate proved, each forgery refused."""
    refused_of = dict.fromkeys(FORGERIES, 0)
    other = None
    for i in range(500):
        parts = files(random_uncertain(rng) if i % 20 == 0 else random_known(rng), tmp_path)
        assert checker.check(*parts).startswith("optimal values within")
        kinds = np.roll(FORGERIES, -i)  # the next kind, or the first after it that changes something here
        kind, made = next((k, made) for k in kinds if (made := forged(k, *parts, rng, other)) is not None)
        with pytest.raises(checker.RefusedError):
            checker.check(*made)
        refused_of[kind] += 1
        other = parts[0]
    print(part, refused_of)
    assert sum(refused_of.values()) == 500
