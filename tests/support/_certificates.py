"""Random problems with certificates, and forgeries of them."""

import json

import numpy as np

import prudent as pr
from prudent.planning.certificate_file import model_file

FORGERIES = ("value", "smaller error", "other action", "level", "model", "other model", "truncated", "type", "shape")


def random_known(rng, size=8):
    """Return a solved known model."""
    S, A = rng.integers(2, size), rng.integers(1, 5)
    chances = rng.dirichlet(np.full(S, rng.choice([0.1, 1.0])), size=(S, A))
    reward = rng.normal(size=(S, A)) * 10.0 ** rng.integers(-3, 4)
    return pr.solve(pr.MDP(chances, reward, rng.choice([0.0, 0.5, 0.9, 0.99])))


def random_uncertain(rng, size=4):
    """Return a solved Bayesian risk MDP, with counts as uneven as they come."""
    S, A = rng.integers(2, size), rng.integers(1, 4)
    model = pr.UncertainMDP.direct(rng.normal(size=(S, A)), float(rng.choice([0.5, 0.9])))
    counts = rng.choice([0.3, 1.0, 5.0, 100.0, 1e4], size=(S * A, S))
    return pr.BayesianRiskMDP(model, counts, float(rng.choice([-0.8, 0.0, 0.5, 0.9, 0.99]))).solve()


def files(solution, folder):
    """Return the model file and the certificate of a solution."""
    solution.certificate(folder / "certificate.json", model=folder / "model.json")
    assert (folder / "model.json").read_bytes() == model_file(solution.problem)
    return (folder / "model.json").read_bytes(), (folder / "certificate.json").read_bytes()


def forged(kind, model, certificate, rng, other=None, worse=1e-10):
    """Return the files after a forgery, or None where it changes nothing; ``other`` is the file of another model."""
    record = json.loads(certificate)
    s = int(rng.integers(len(record["value"])))
    if kind == "value":  # one unit in the tenth digit of the largest value
        record["value"][s] += rng.choice([-1, 1]) * max(worse * np.abs(record["value"]).max(), 3.0 * record["error"])
    elif kind == "smaller error":
        shift = 2.0 * record["error"] + 1e-10 * np.abs(record["value"]).max() + 1e-300
        record["value"] = [value + shift for value in record["value"]]
    elif kind == "other action":
        table = json.loads(model)
        own = [p % table["n_actions"] for p in table["pairs"] if p // table["n_actions"] == s]
        actions = [a for a in own if a != record["policy"][s]]
        if not actions:
            return None
        record["policy"][s] = int(rng.choice(actions))
    elif kind == "level":
        if not record["alpha"]:
            return None
        record["alpha"] = 0.5 * record["alpha"]
    elif kind == "model":
        table = json.loads(model)
        name = "reward" if "reward" in table else "pair_reward"
        at = int(rng.integers(len(table[name])))
        table[name][at] += 1.0
        model = json.dumps(table, sort_keys=True, separators=(",", ":")).encode()
    elif kind == "other model":
        return None if other is None or other == model else (other, certificate)
    elif kind == "truncated":
        return model, certificate[: int(rng.integers(len(certificate) - 2))]
    elif kind == "type":
        name = str(rng.choice(["value", "policy", "error", "claim"]))
        record[name] = [None, "1", float("inf"), True, []][rng.integers(5)]
    elif kind == "shape":
        record["value"] = record["value"][1:]
    return model, json.dumps(record).encode()
