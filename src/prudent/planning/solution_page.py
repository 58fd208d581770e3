"""The page of a solution, as a file and in notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._support.checks import instance_of
from .._support.output import write
from ..display.pages import solution as pages
from ..errors import ParameterError
from ..models.base import plural
from ..types import PathLike
from .simplify import Simplified


class Reported:
    """What a solution has in common with its page: nothing is solved for it."""

    def report(
        self, path: PathLike, *, name: str = "the model", unit: str = "", rules: Simplified | None = None
    ) -> Path:
        """Write a page: what to do in each state, how sure the numbers are, a figure, and the tables as files.

        Parameters
        ----------
        path : path
            The HTML file to write. The page needs no other file, and prints.
        name : str, default="the model"
            Name of the problem in the heading.
        unit : str, optional
            What values are measured in, such as "euro".
        rules : Simplified, optional
            What ``simplify`` returned: rules to remember, which the page then begins with.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        ParameterError
            If ``rules`` is something else.

        See Also
        --------
        prudent.analysis.LogStudy.report : The page of a log, with returns, checks and what to measure next.

        Examples
        --------
        >>> import tempfile
        >>> from prudent import MDP, solve
        >>> plan = solve(MDP([[[1.0], [1.0]]], [[1.0, 2.0]], discount=0.5, states=["shop"], actions=["shut", "open"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = plan.report(f"{folder}/page.html", name="the shop").read_text()
        >>> "What to do: the shop" in page
        True
        """
        if rules is not None and not isinstance(rules, Simplified):
            message = f"rules must be what solution.simplify returned, got {type(rules).__name__}"
            raise ParameterError(message, code="wrong-type", argument="rules", value=type(rules).__name__)
        write(Path(path), self._page(name, instance_of(unit, "unit", str), rules).encode())
        return Path(path)

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame of its own."""
        return pages.in_notebook(self._page("the model", "", None))

    def _page(self, name: str, unit: str, rules: Simplified | None) -> str:
        solution: Any = self
        text = solution.to_json()
        record = json.loads(text)
        facts = [f"all values in {unit}"] if unit else []
        if solution.bias is not None:
            timed = getattr(getattr(solution.problem, "model", None), "duration", None) is not None
            facts.append(f"average reward of {'a unit of time' if timed else 'a step'}")
        elif "discount" in record:
            facts.append(f"discount {record['discount']:g}")
        facts += [record["risk"]] if "risk" in record else []
        facts += [plural(len(solution.states), "state"), plural(len(solution.actions), "action")]
        said = [] if rules is None else rules.sentences()
        return pages.render(name, unit, facts, said, solution.to_pandas(), record, text, solution.panels())
