"""Forged state files: run as a script, it makes and loads many, and dies of the first that is not treated as it should.

Usage: python _forgery.py FOLDER SEED CASES. Every case changes fields of the header or entries of the arrays of a good
file and seals it with a valid checksum. It must be refused with a StateFileError, or load and then work: decide, learn,
save, and load again. Memory is limited for all of it.
"""

import copy
import hashlib
import json
import resource
import struct
import sys
import warnings
from pathlib import Path

import numpy as np

import prudent as pr
from prudent.bandits import BanditSettings, Decay
from prudent.errors import ConvergenceWarning, StateFileError

HEAD = struct.Struct("<8sIQ")
NUMBERS = [-1, 0, 1, 2, 3, 0.5, -0.5, 1e-320, 1e308, 1e17, 10**9, 10**18, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**40]
OTHERS = [
    None,
    True,
    False,
    "",
    "x",
    "1",
    "PCG64",
    "Philox",
    "mean",
    [],
    {},
    [1],
    [[]],
    {"a": 1},
    float("nan"),
    -np.inf,
]
FLOATS = [np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 0.5, 1.0, 2.0, 1e-320, 1e-9, 1e9, 1e300, -1e300]
INTEGERS = [-1, 0, 1, 2, 5, 10**9, 2**31, 2**62, 2**63 - 1, -(2**63)]


# -- files -------------------------------------------------------------------------------------------------


def opened(content: bytes) -> tuple[dict, dict]:
    """Return the header of a state file and its arrays, by name."""
    _, _, length = HEAD.unpack_from(content)
    header = json.loads(content[HEAD.size : HEAD.size + length])
    offset, arrays = HEAD.size + length, {}
    for entry in header["arrays"]:
        count = int(np.prod(entry["shape"], dtype=np.int64))
        arrays[entry["name"]] = np.frombuffer(content, entry["type"], count, offset).copy()
        offset += 8 * count
    return header, arrays


def sealed(header, body: bytes = b"", layout: int = 1) -> bytes:
    """Return a state file with a valid checksum; the header may be bytes already."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = HEAD.pack(b"PRUDENT\x1a", layout, len(text)) + text + body
    return content + hashlib.sha256(content).digest()


def joined(arrays: dict) -> bytes:
    """Return the bytes of the arrays."""
    return b"".join(array.tobytes() for array in arrays.values())


# -- good ones ---------------------------------------------------------------------------------------------


def originals(folder: Path) -> list[tuple[type, bytes]]:
    """Return classes and the good files that are forged."""
    rng = np.random.default_rng(5)
    made = []
    for settings, options in (
        (pr.bandits.brps_cmab(0.8), {"noise_sd": 1.0, "intercept": False}),
        (pr.bandits.brps_cmab(0.7, draws=7), {"half_life": 2, "min_propensity": 0.1}),
        (pr.bandits.thompson_sampling_inflated(delta=0.1), {"first_pulls": 1}),
        (BanditSettings(Decay(0.9, half=2)), {"noise": "by arm"}),
    ):
        bandit = pr.LinearBandit(["a", 7, "c"], 2, settings=settings, rng=1, **options)
        for _ in range(5):
            point = rng.normal(size=2)
            bandit.update(point, bandit.select(point).arm, rng.normal())
        made.append(bandit.add_arm("d", like=["a", "c"]))
    for bits in (np.random.Philox, np.random.MT19937, np.random.SFC64):
        made.append(pr.LinearBandit(2, 1, rng=np.random.Generator(bits(3)), settings=pr.bandits.brps_cmab_clipped(0.5)))
    model = pr.UncertainMDP.direct(
        [[0.0, 0.1], [1.0, 0.0]], discount=0.9, states=["dry", "wet"], actions=[("go", 1), "stay"]
    )
    for options in ({"alpha": [0.9, 0.5]}, {"draws": "mean", "episode_length": None}, {"alpha": 0.5, "sweeps": 20}):
        made.append(pr.PosteriorSamplingAgent(model, rng=2, **options))
    made.append(pr.PosteriorSamplingAgent(model, risk=pr.Spectral(lambda u: u**0.5), draws=5, rng=2))
    made.append(pr.OptimisticVIAgent(model, alpha=0.8, horizon=100, rng=3))
    for agent in made[7:]:
        for _ in range(4):
            agent.observe("dry", agent.act("dry"), "wet")
    contents = []
    for each in made:
        each.save(folder / "good")
        contents.append((type(each), (folder / "good").read_bytes()))
    return contents


# -- forging -----------------------------------------------------------------------------------------------


def places(node, path=()):
    """Yield the path of every value in a JSON document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        if not (isinstance(value, list) and len(value) > 100):  # the key of a generator has hundreds of numbers
            yield from places(value, (*path, key))


def forge_header(header, rng) -> None:
    """Change a value, or remove or add one."""
    every = list(places(header))
    path = every[rng.integers(len(every))]
    parent = header
    for key in path[:-1]:
        parent = parent[key]
    value, kind = parent[path[-1]], rng.integers(6)
    if kind == 0:
        del parent[path[-1]]
    elif kind == 1 and isinstance(parent, dict):
        parent["unknown"] = value
    elif kind == 1:
        parent.append(value)
    elif kind == 2 and isinstance(value, (int, float)) and not isinstance(value, bool):
        parent[path[-1]] = [value + 1, value - 1, -value, 2 * value, 1000 * value, 0.999 * value][rng.integers(6)]
    else:
        pool = NUMBERS if rng.random() < 0.5 else OTHERS
        parent[path[-1]] = copy.deepcopy(pool[rng.integers(len(pool))])


def forge_array(arrays, rng) -> None:
    """Change an entry."""
    names = [name for name, array in arrays.items() if array.size]
    array = arrays[names[rng.integers(len(names))]]
    place = rng.integers(array.size)
    if rng.random() < 0.3:
        with np.errstate(over="ignore"):
            array[place] += rng.normal() if array.dtype == np.float64 else rng.integers(-2, 3)
    elif array.dtype == np.float64:
        array[place] = FLOATS[rng.integers(len(FLOATS))]
    else:
        array[place] = INTEGERS[rng.integers(len(INTEGERS))]


def forged(content: bytes, rng) -> bytes:
    """Return a file with one to three changes."""
    header, arrays = opened(content)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.6:
            forge_header(header, rng)
        else:
            forge_array(arrays, rng)
    return sealed(header, joined(arrays))


# -- what must hold ----------------------------------------------------------------------------------------


def work(one, folder: Path) -> None:
    """Decide, learn and save, whatever ``one`` is."""
    if isinstance(one, pr.LinearBandit):
        if one.settings.min_propensity * len(one.arms) > 1.0:  # fits fewer arms
            return
        point = np.linspace(0.5, 1.0, one.dim)
        decision = one.select(point)
        if not (one.settings.clip and one.settings.weights.size > 2):  # known for at most two clipped draws
            assert 0.0 <= decision.propensity <= 1.0, decision.propensity
            assert abs(decision.propensities.sum() - 1.0) <= 1e-12, decision.propensities
        assert np.isfinite(decision.score)
        one.update(point, decision.arm, 1.0).select(np.ones((3, one.dim)))
    else:
        state = 0 if one.model.states is None or one._indices else one.model.states[0]
        action = one.act(state)
        s = one._reader.states.index(state)
        a = one._reader.actions.index(action)
        target = int(one.model.next_state[s, a].max())
        one.observe(state, action, target if one.model.states is None or one._indices else one.model.states[target])
        one.act(state)
        assert np.isfinite(one.value).all()
    one.save(folder / "again")
    type(one).load(folder / "again")


def main(folder: Path, seed: int, cases: int) -> None:
    """Forge ``cases`` files."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ConvergenceWarning)
    good = originals(folder)
    for kind, content in good:  # compiles the kernels, before memory is limited
        (folder / "good").write_bytes(content)
        work(kind.load(folder / "good"), folder)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng = np.random.default_rng(seed)
    loaded = 0
    for case in range(cases):
        kind, content = good[rng.integers(len(good))]
        bad = forged(content, rng)
        (folder / "forged").write_bytes(bad)
        try:
            one = kind.load(folder / "forged")
        except StateFileError:
            continue
        loaded += 1
        try:
            work(one, folder)
        except BaseException:
            header, arrays = opened(bad)
            arrays.pop("uniforms", None)  # a thousand, seldom at fault
            print(f"case {case} of seed {seed}: {header['values']} {arrays}", file=sys.stderr)
            raise
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
    assert more < 2**19, f"{more} KiB more than before"
    print(f"{cases} cases, {loaded} loaded, {more} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
