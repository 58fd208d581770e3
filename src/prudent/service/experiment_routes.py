"""Experiments over HTTP: paths, bodies, and their description."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request

from .bodies import reader
from .experiment_slots import Experiments
from .experiment_specs import ExperimentSpec
from .experiments import Experiment
from .problems import ServiceError

_ONE = "/v1/slots/{slot}"
Handler = Callable[[Request], Awaitable[Any]]


class ReasonBody(Struct, forbid_unknown_fields=True):
    """Why an experiment is changed."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class RollbackBody(Struct, forbid_unknown_fields=True):
    """Where to return to: a time in seconds since 1970, or the id of a decision; the champion before if nothing."""

    to: float | Annotated[str, Meta(max_length=100)] | None = None
    reason: Annotated[str, Meta(max_length=500)] = ""


BODIES = (ExperimentSpec, ReasonBody, RollbackBody)
EXAMPLES: dict[str, Any] = {
    "ExperimentSpec": {
        "unit": "user",
        "ramp": 0.1,
        "challenger": {"arms": ["red", "blue"], "rewards": "bernoulli", "alpha": 0.5},
        "promote_above": 0.0,
        "stop_below": 0.0,
        "guardrails": {"complaint": {"worse_by": 0.01}},
    },
    "ReasonBody": {"reason": "the campaign is over"},
    "RollbackBody": {"to": 1760000000.0, "reason": "wrong prices since noon"},
}


class ExperimentRoutes:
    """Endpoints of experiments.

    Parameters
    ----------
    find : callable
        Returns an open slot by name.
    experiments : Experiments
        Experiments of the slots.
    body : callable
        Reads the body of a request.
    follow : callable
        Brings the slots up to date after a change.
    """

    def __init__(
        self,
        find: Callable[[str], Any],
        experiments: Experiments,
        body: Callable[[Request], Awaitable[bytes]],
        follow: Callable[[], None],
    ) -> None:
        self._find, self._experiments, self._body, self._follow = find, experiments, body, follow
        self._read_spec, self._read_reason, self._read_rollback = (reader(kind) for kind in BODIES)

    def table(self) -> list[tuple[str, str, str | None, Handler]]:
        """Return method, path, role and handler of each endpoint."""
        base = f"{_ONE}/experiment"
        return [
            ("PUT", base, "admin", self.put),
            ("GET", base, "read", self.get),
            ("POST", f"{base}/promote", "admin", self.changing("promote")),
            ("POST", f"{base}/pause", "admin", self.changing("paused")),
            ("POST", f"{base}/resume", "admin", self.changing("running")),
            ("POST", f"{base}/stop", "admin", self.changing("stopped")),
            ("POST", f"{base}/rollback", "admin", self.rollback),
            ("GET", f"{_ONE}/audit", "read", self.audit),
        ]

    def _experiment(self, request: Request) -> Experiment:
        return self._experiments.of(self._find(request.path_params["slot"]))

    async def _done(self, request: Request, work: Callable[[Experiment, str], Any]) -> Any:
        """Change an experiment in a thread, and return it with what is known."""
        experiment = self._experiment(request)
        who = request.scope["caller"]

        def change() -> Any:
            work(experiment, "" if who is None else who.name)
            self._follow()
            return experiment.describe()

        return await asyncio.to_thread(change)

    async def put(self, request: Request) -> Any:
        """Start or change an experiment."""
        spec = self._read_spec(await self._body(request))
        name = self._find(request.path_params["slot"]).row.journal
        return await self._done(request, lambda experiment, who: experiment.put(spec, who, name))

    async def get(self, request: Request) -> Any:
        """Return the experiment of a slot and what may be said of it now."""
        experiment = self._experiment(request)
        if experiment.state is None:
            name = request.path_params["slot"][:60]
            raise ServiceError(f"slot {name!r} has no experiment", code="unknown-experiment", slot=name)
        return await asyncio.to_thread(lambda: experiment.describe() | {"seen": experiment.look()})

    def changing(self, what: str) -> Handler:
        """Return an endpoint that promotes, pauses, resumes or stops."""

        async def change(request: Request) -> Any:
            body: ReasonBody = self._read_reason(await self._body(request) or b"{}")

            def work(experiment: Experiment, who: str) -> None:
                if what == "promote":
                    experiment.promote(who, body.reason)
                else:
                    experiment.set_status(what, who, body.reason)

            return await self._done(request, work)

        return change

    async def rollback(self, request: Request) -> Any:
        """Return the champion to an earlier state."""
        body: RollbackBody = self._read_rollback(await self._body(request) or b"{}")
        return await self._done(request, lambda experiment, who: experiment.rollback(who, body.to, body.reason))

    async def audit(self, request: Request) -> Any:
        """Return all changes of experiments of a slot."""
        return {"changes": await asyncio.to_thread(self._experiment(request).audit)}


def experiment_paths(operation: Callable[..., dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the description of the endpoints, for OpenAPI."""
    base = f"{_ONE}/experiment"
    return {
        base: {
            "put": operation("Start an experiment, or change the running one", "admin", "ExperimentSpec"),
            "get": operation("The experiment of a slot, with intervals that hold at all times", "read"),
        },
        f"{base}/promote": {"post": operation("Make the challenger the champion", "admin", "ReasonBody")},
        f"{base}/pause": {"post": operation("Send all traffic to the champion for now", "admin", "ReasonBody")},
        f"{base}/resume": {"post": operation("Go on with a paused experiment", "admin", "ReasonBody")},
        f"{base}/stop": {"post": operation("End an experiment; the champion stays", "admin", "ReasonBody")},
        f"{base}/rollback": {"post": operation("Return the champion to an earlier state", "admin", "RollbackBody")},
        f"{_ONE}/audit": {"get": operation("All changes of experiments of a slot", "read")},
    }
