"""Check of the agents of a simulation."""

from __future__ import annotations

from typing import Any

from ..errors import ParameterError


def checked_agents(agents: Any, kind: Any, expected: str) -> list[Any]:
    """Return settings, one or several of them, as a list in which all labels differ."""
    settings = [agents] if isinstance(agents, kind) else list(agents)
    if not settings:
        raise ParameterError("agents must have at least one, got none", code="empty", argument="agents")
    labels: list[str] = []
    for i, agent in enumerate(settings):
        if not isinstance(agent, kind):
            message = f"agents[{i}] is {agent!r}, expected {expected}"
            raise ParameterError(message, code="wrong-type", argument="agents", index=(i,), value=agent)
        if agent.label in labels:
            message = f"agents[{labels.index(agent.label)}] and agents[{i}] have the same label, {agent.label!r}"
            raise ParameterError(message, code="duplicate-label", argument="agents", value=agent.label)
        labels.append(agent.label)
    return settings
