"""Check of the agents of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from .._support.content import Content
from ..agents.protocol import AgentFactory
from ..errors import ParameterError, PrudentError


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
        listed = list(agents) if isinstance(agents, Iterable) and not callable(agents) else [agents]
    if not listed:
        raise ParameterError("agents must have at least one, got none", code="empty", argument="agents")
    settings: list[Any] = []
    labels: list[str] = []
    for i, agent in enumerate(listed):
        if factories and callable(agent):
            agent = Custom(agent, str(getattr(agent, "label", "") or getattr(agent, "__name__", type(agent).__name__)))
        if not isinstance(agent, kind | Custom if factories else kind):
            message = f"agents[{i}] is {agent!r}, expected {expected}"
            if factories and hasattr(agent, "act"):
                message += f"; give the class {type(agent).__name__}, or a function that makes the agent"
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


def described(agent: Any) -> dict[str, Any]:
    """Return the full settings of an agent as values for JSON; functions and classes by name and content."""
    if isinstance(agent, Custom):
        factory = agent.factory.func if isinstance(agent.factory, partial) else agent.factory
        name = f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', repr(factory))}"
        options = agent.factory.keywords if isinstance(agent.factory, partial) else {}
        plain = {name: value if _is_plain(value) else _by_content(value) for name, value in options.items()}
        return {"made_by": name, "options": plain, "content": Content(agent.factory).hexdigest()}
    if isinstance(agent, Mapping):  # options of a bandit
        return {str(name): value if _is_plain(value) else _by_content(value) for name, value in agent.items()}
    values = {field.name: getattr(agent, field.name) for field in fields(agent)}
    with suppress(PrudentError):  # a schedule by a function cannot be saved
        values = agent.to_dict() if hasattr(agent, "to_dict") else values
    return {name: value if _is_plain(value) else _by_content(value) for name, value in values.items()}


def _by_content(value: Any) -> str:
    """Return the class and the content of a value; its ``repr`` might hold an address in memory."""
    return f"{type(value).__name__} sha256 {Content(value).hexdigest()}"


def _is_plain(value: Any) -> bool:
    """Return whether JSON can hold a value."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
