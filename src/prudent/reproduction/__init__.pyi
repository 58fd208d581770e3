from .claims import Claim
from .rules import Verdict
from .runner import conclude, judge, load, run
from .scale import SCALES, Scale
from .studies import STUDIES
from .study import Study
from .sweeps import compared, sweep

__all__ = [
    "SCALES",
    "STUDIES",
    "Claim",
    "Scale",
    "Study",
    "Verdict",
    "compared",
    "conclude",
    "judge",
    "load",
    "run",
    "sweep",
]
