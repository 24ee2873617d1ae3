"""Runs that `lockstep api` starts, stops and deletes: as registry.Registry, over HTTP."""

import threading
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.collector.contract.words import ExitCode, FaultKind
from lockstep.dashboard.starting.plan import Form, Plan, fault_specs
from lockstep.dashboard.starting.process import Snapshot, Stage
from lockstep.dashboard.starting.registry import BusyError
from lockstep.workloads.sdk.client.client import GOING, ApiError, Client

SECONDS = 5.0
"""For an answer: a page waits for it."""
SHARED = ("workload", "nodes", "ranks_per_node", "tp", "pp", "steps", "seed")
"""Fields of a form that the API calls the same."""
ALL = 1000


class RemoteJob:
    """One run of the API; what it says is asked for each time."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self.name = client, name

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more.

        Raises:
            ApiError: Nobody answers.
        """
        return self._client.run(self.name)["state"] not in GOING

    def stop(self) -> None:
        """Ask it to close its archive and end; one that is gone is over."""
        try:
            self._client.stop(self.name)
        except ApiError as error:
            if error.error != "unknown_run":
                raise

    def snapshot(self) -> Snapshot:
        """How it is now.

        Raises:
            ApiError: Nobody answers, or it was deleted.
        """
        job = self._client.run(self.name)
        return snapshot(job, self._client.log(self.name), datetime.now(UTC))


class RemoteRuns:
    """Runs of an API: the last one that was asked for, and whether it goes on.

    Raises:
        ValueError: The address is none, or no token is known.
        OSError: The token's file cannot be read.
    """

    def __init__(self, url: str) -> None:
        self._client = Client(url, timeout=SECONDS)
        self._last = ""

    @property
    def job(self) -> RemoteJob | None:
        """The run that goes on, or the last one that was started from here; None = none."""
        name = self._client.capacity()["running"] or self._last
        return RemoteJob(self._client, name) if name else None

    def waiting(self) -> tuple[str, ...]:
        """Runs that wait, in order."""
        return tuple(self._client.capacity()["waiting"])

    def taken(self) -> frozenset[str]:
        """Names that are there already."""
        return frozenset(self.states())

    def states(self) -> Mapping[str, str]:
        """Run -> its state."""
        return {row["run"]: row["state"] for row in self._client.runs(limit=ALL)}

    def refused(self) -> dict[FaultKind, str]:
        """Kinds of fault that the API's machine cannot inject, and why."""
        refused = self._client.capacity()["refused_faults"]
        return {kind: str(refused[kind]) for kind in FaultKind if kind in refused}

    def start(self, plan: Plan) -> RemoteJob:
        """Start a run, or queue it.

        Raises:
            BusyError: The API refuses it; its sentence.
        """
        assert plan.form is not None  # every plan of a form has it
        try:
            self._client.start(**settings(plan.form, plan.name))
        except ApiError as error:
            raise BusyError(f"{error.reason}.") from error
        self._last = plan.name
        return RemoteJob(self._client, plan.name)

    def close(self) -> None:
        """Close its connections; runs go on."""
        self._client.close()

    def stop(self, name: str) -> None:
        """As RemoteJob.stop."""
        RemoteJob(self._client, name).stop()

    def delete(self, name: str) -> None:
        """Remove a run that is over, with its archive."""
        self._client.delete(name)


def settings(form: Form, name: str) -> dict[str, Any]:
    """What the API is asked for; pure."""
    fields = asdict(form)
    return {
        **{field: fields[field] for field in SHARED}, "name": name, "dp": form.dp or None,
        "model": form.model or None, "faults": list(fault_specs(form)), "analyze": form.follow,
    }  # fmt: skip


def snapshot(job: Mapping[str, Any], log: list[str], now: datetime) -> Snapshot:
    """A run as the API tells it; pure."""
    state, failure = job["state"], job["failure"] or {}
    began = datetime.fromisoformat(job["started"]) if job["started"] else now
    until = datetime.fromisoformat(job["ended"]) if job["ended"] else now
    codes = {"ended": ExitCode.OK, "failed": ExitCode.INTERNAL, "hung": ExitCode.INTERNAL,
             "stopped": ExitCode.INTERRUPTED}  # fmt: skip
    code = codes.get(state) if job["started"] else None
    stage = {"queued": Stage.QUEUED}.get(state) or (
        Stage(state) if state in tuple(Stage) else Stage.OVER
    )
    return Snapshot(
        name=job["run"], out=Path(job["run"]), command=job["command"] or "", stage=stage,
        seconds=max(0.0, (until - began).total_seconds()), code=code, stopped=state == "stopped",
        trouble=str(failure.get("reason", "")) if state != "ended" else "",
        log="\n".join(log).encode(), run=job["run"], behind=job["behind"] or "",
    )  # fmt: skip


_MADE: dict[str, RemoteRuns] = {}
_MAKING = threading.Lock()


def of(url: str) -> RemoteRuns:
    """The runs of an API, once a process; as RemoteRuns."""
    with _MAKING:
        if url not in _MADE:
            _MADE[url] = RemoteRuns(url)
        return _MADE[url]
