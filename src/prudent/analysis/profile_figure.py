"""Risk levels side by side: the mean against the tail of the return, and the actions that change with the level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.frame import Figure, Panel, drawn
from ..display.style import Entry, hex_of
from .returns_figure import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from .profile import RiskProfile

__all__ = ["plot_profile", "profile_figure"]


ROWS = 16  # the most states shown


def plot_profile(profile: RiskProfile) -> Canvas:
    """Return the figure of matplotlib."""
    return drawn(profile_figure(profile))


def profile_figure(profile: RiskProfile) -> Figure:
    """Return the same as panels for a page."""
    changed = np.flatnonzero(profile.differs.any(axis=0))
    weight = profile.occupancy.max(axis=0)
    shown = changed[np.argsort(-weight[changed], kind="stable")][:ROWS]
    left_out = changed.size - shown.size
    title = "Actions by level"
    if left_out:
        title = f"Actions by level, {shown.size} of {changed.size} states that change"
    entries = (
        Entry("risk level, ± 2 standard errors", "law", mark="dot"),
        Entry("recommended", "brps-0.99", mark="ring"),
        Entry("another action than at α = 0", "brps-0.9", mark="area"),
    )
    panels = (
        Panel("What caution costs and buys", lambda axes: _frontier(axes, profile)),
        Panel(title, lambda axes: _actions(axes, profile, shown)),
    )
    height = max(3.3, 0.9 + 0.24 * shown.size)
    return Figure("risk-profile", "Risk profile", panels, entries, 2, (5.0, height))


def _frontier(axes: Axes, profile: RiskProfile) -> None:
    returns = profile.returns
    x, y = returns["cvar"].values, returns["mean"].values
    axes.plot(x, y, color=hex_of("law"), linewidth=0.8, alpha=0.5)
    look: Any = {"color": hex_of("law"), "linestyle": "none", "marker": "o", "markersize": 4.5, "elinewidth": 0.8}
    axes.errorbar(x, y, xerr=2.0 * returns["cvar_se"].values, yerr=2.0 * returns["mean_se"].values, **look)
    place = profile.alphas.index(profile.recommended)
    ring: Any = {"markerfacecolor": "none", "markersize": 10.5, "markeredgewidth": 1.6, "zorder": 4}
    axes.plot([x[place]], [y[place]], marker="o", color=hex_of("brps-0.99"), linestyle="none", **ring)
    for names, point in _labels(profile, x, y):
        text = f"α = {names[0]:g} to {names[-1]:g}" if len(names) > 3 else "α = " + ", ".join(f"{a:g}" for a in names)
        axes.annotate(text, point, (7, 5), textcoords="offset points", fontsize=8)
    axes.margins(x=0.22, y=0.15)
    axes.set_xlabel(f"CVaR of the true return, α = {profile.tail:g}")
    axes.set_ylabel("mean true return")


def _labels(profile: RiskProfile, x: Any, y: Any) -> list[tuple[list[float], tuple[float, float]]]:
    """Return the levels at each point: those too close for two labels share one."""
    widths = [max(float(np.ptp(values)), 1e-300) for values in (x, y)]
    groups: list[tuple[list[float], tuple[float, float]]] = []
    for alpha, a, b in zip(profile.alphas, x, y, strict=True):
        for names, (c, d) in groups:
            if abs(a - c) <= 0.25 * widths[0] and abs(b - d) <= 0.08 * widths[1]:
                names.append(alpha)
                break
        else:
            groups.append(([alpha], (float(a), float(b))))
    return groups


def _actions(axes: Axes, profile: RiskProfile, shown: Any) -> None:
    from matplotlib.patches import Rectangle

    axes.grid(visible=False)
    axes.set_xticks(range(len(profile.alphas)), [f"{alpha:g}" for alpha in profile.alphas])
    axes.set_xlabel("risk level α")
    if not shown.size:
        axes.set_yticks([])
        axes.set_xlim(-0.5, len(profile.alphas) - 0.5)
        axes.text(0.5, 0.5, "every level takes the same actions", ha="center", va="center", transform=axes.transAxes)
        return
    states = profile.neutral.states
    fill = hex_of("brps-0.9")
    for column, alpha in enumerate(profile.alphas):
        names = profile.solutions[alpha].policy_names
        for row, s in enumerate(shown):
            if profile.differs[column, s]:
                axes.add_patch(
                    Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, facecolor=fill, alpha=0.3, linewidth=0)
                )
            axes.text(column, row, shortened(names[s], 12), ha="center", va="center", fontsize=7.5)
    labels = [shortened(s if states is None else states[s], 20) for s in shown]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylabel("state, most visited first")
    axes.set_xlim(-0.5, len(profile.alphas) - 0.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(length=0)
