"""The experiments of the paper: studies, a runner that survives interruptions, claims and the report.

Names are imported when they are first used, so that the report imports no solver.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
