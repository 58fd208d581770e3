"""prudent: decisions that hedge against what the data has not yet taught.

Bayesian risk MDPs after Wang and Zhou, *Online Bayesian Risk-Averse Reinforcement Learning*: describe a model, add
observations, and get the risk-averse policy with certified values.

The names that most programs need are here; the others are in the rooms, for instance ``prudent.errors.DataError`` or
``prudent.bandits.brps_cmab``. Names are imported on first use (see ``__init__.pyi``), so ``import prudent`` is fast.
"""

import lazy_loader

__version__ = "0.2.0"
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name):
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return _load(name)
