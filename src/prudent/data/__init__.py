"""Tables, names and features: everything that reads what users bring.

``source`` reads any table into ``columns.TableColumns``, whose methods check the cells of a column and name the row in
errors. ``labels`` maps names to indices, and ``transitions`` reads rows (state, action, next state) into indices by
them. ``state_map`` makes states of columns of numbers (``state_growth`` learns the rules, ``state_rules`` and
``state_vectors`` apply them, ``state_names`` names the states). ``naming`` names the sources and outcomes of a model.
``policy`` reads policies, ``features`` contexts by name. ``encoder`` makes numbers of rows with categories, tags, times
and missing values (``cell_encoders`` of single columns); ``transformers`` lets scikit-learn do so.

To read a new kind of table, extend ``TableSource._complete``, and ``TableSource._parts`` if it can be streamed. To read
a new column, add its usual names to ``columns.SYNONYMS`` and ask for it in ``TableSource.read``.
"""

from __future__ import annotations

from .encoder import Features
from .state_map import StateMap

__all__ = ["Features", "StateMap"]
