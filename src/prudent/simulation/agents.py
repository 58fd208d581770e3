"""Check of the agents of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..agents.protocol import AgentFactory
from ..errors import ParameterError


@dataclass(frozen=True)
class Custom:
    """An agent of any class: what makes it, and its name in results."""

    factory: AgentFactory
    label: str


def checked_agents(agents: Any, kind: Any, expected: str, factories: bool = False) -> list[Any]:
    """Return settings, one or several of them or a dict by label, as a list in which all labels differ.

    With ``factories`` a class or another callable is an agent, too, and becomes a ``Custom``.
    """
    if isinstance(agents, Mapping):
        listed = [_labelled(agent, str(label), kind) for label, agent in agents.items()]
    else:
        listed = [agents] if isinstance(agents, kind) or callable(agents) else list(agents)
    if not listed:
        raise ParameterError("agents must have at least one, got none", code="empty", argument="agents")
    settings: list[Any] = []
    labels: list[str] = []
    for i, agent in enumerate(listed):
        if factories and callable(agent):
            agent = Custom(agent, str(getattr(agent, "label", "") or getattr(agent, "__name__", type(agent).__name__)))
        if not isinstance(agent, kind | Custom if factories else kind):
            message = f"agents[{i}] is {agent!r}, expected {expected}"
            raise ParameterError(message, code="wrong-type", argument="agents", index=(i,), value=agent)
        if agent.label in labels:
            message = f"agents[{labels.index(agent.label)}] and agents[{i}] have the same label, {agent.label!r}"
            raise ParameterError(message, code="duplicate-label", argument="agents", value=agent.label)
        labels.append(agent.label)
        settings.append(agent)
    return settings


def _labelled(agent: Any, label: str, kind: Any) -> Any:
    """Return an agent under another name."""
    if isinstance(agent, kind):
        return replace(agent, label=label)
    return Custom(agent, label) if callable(agent) else agent
