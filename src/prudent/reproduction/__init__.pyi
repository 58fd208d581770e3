from .claims import Claim
from .export import claims_latex, claims_table
from .manifest import manifest, write_manifest
from .rules import Verdict
from .runner import conclude, judge, load_datasets, run
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
    "claims_latex",
    "claims_table",
    "compared",
    "conclude",
    "judge",
    "load_datasets",
    "manifest",
    "run",
    "sweep",
    "write_manifest",
]
