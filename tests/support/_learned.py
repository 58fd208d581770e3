"""What a bandit has learned, as bytes: its state without random streams and without numbers of decisions."""

import json

_LEFT_OUT = ("rng", "uniforms", "decisions", "tries", "tick")


def learned(bandit):
    """Return what a bandit has learned; equal bytes are equal beliefs, to the last bit."""
    values, arrays = bandit.state()
    text = json.dumps({name: value for name, value in values.items() if name not in _LEFT_OUT}, sort_keys=True)
    return text.encode() + b"".join(
        name.encode() + array.tobytes() for name, array in sorted(arrays.items()) if name not in _LEFT_OUT
    )
