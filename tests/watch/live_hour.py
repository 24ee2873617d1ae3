"""A live hour with churn, on a simulated clock: what is wrong is told once, and nothing else.

Of four rows of nodes one has three faults, one an error of a GPU; beside them jobs end, are ended
by a scheduler with and without a word, are restarted, nodes are renamed and taken away, and the
exporter is upgraded in the middle.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from lockstep.collector.contract import metrics as m
from lockstep.watch.judge.diagnoses import Diagnoses
from tests.watch.cluster_life import (
    FOREVER,
    NODES,
    TRIED,
    Cluster,
    Days,
    Episode,
    SimulatedConnection,
    SimulatedRun,
    Told,
)
from tests.watch.few_runs import EVERY, crashes, verdict

FAULTY, CHURN, RENAMED, REMOVED = range(4)
"""Rows of nodes."""
__all__ = ["CHURN", "EXPECTED", "NODES", "REMOVED", "RENAMED", "LiveHour"]


class Hour(Cluster):
    """What happens in that hour."""

    def __init__(self) -> None:
        super().__init__(0, 4)
        self._next = [FOREVER] * 4
        self.begun = self.now
        self.taken_away = FOREVER
        at = self.begun
        main = self._runs("main", FAULTY, at)
        main.episodes.append(Episode(2, 1.6, at + 900.0, at + 1200.0))
        main.stands.append((at + 2100.0, at + 2160.0, 1))
        crashes(main, at + 2236.0, rank=3)

        first = self._runs("ends", CHURN, at)
        first.dies, first.states = (
            dict.fromkeys(EVERY, at + 600.0),
            dict.fromkeys(EVERY, "finished"),
        )
        deleted = self._runs("deleted", CHURN, at + 660.0)
        deleted.dies = {rank: at + 1500.0 + 10.0 * (rank % 2) for rank in EVERY}
        deleted.states = dict.fromkeys(EVERY, "stopped")
        preempted = self._runs("preempted", CHURN, at + 1560.0)
        preempted.dies = dict.fromkeys(EVERY, at + 2400.0)
        again = self._runs("preempted", CHURN, at + 2460.0, attempt=1)
        again.dies, again.states = (
            dict.fromkeys(EVERY, at + 3300.0),
            dict.fromkeys(EVERY, "finished"),
        )

        long = self._runs("long", RENAMED, at)
        long.bare = False
        long.dark.append((at + 1800.0, at + 1850.0))  # its exporter is upgraded
        self.dark.append((RENAMED, at + 1800.0, at + 1850.0))
        last = self._runs("last", REMOVED, at)
        self._finishes(last, at + 1200.0)
        self.long = long

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        since = self.now - self.begun
        self.runs = [one for one in self.runs if not self._is_replaced(one)]
        if since >= 1850.0:  # of another version: clocks have another name now
            self.long.no_metrics = {m.GPU_CLOCK.name}
        if since >= 2700.0:
            self.names[RENAMED] = "renamed-{}"
        if since >= 3000.0 and not self.long.xids:
            labels = {**self.long._target(3), "xid": "79", "gpu": "0", "uuid": "GPU-2-3"}
            self.long.xids = [(labels, self.now)]
        if since >= 1500.0:
            self.taken_away = self.begun + 1500.0

    def is_dark(self, row: int, time: float) -> bool:
        return super().is_dark(row, time) or (row == REMOVED and time >= self.taken_away)

    def _runs(self, name: str, row: int, begun: float, attempt: int = 0) -> SimulatedRun:
        run = SimulatedRun(name, row, begun, attempt, row + attempt)
        self.runs.append(run)
        self.history.append(("scripted", run))
        return run

    def _finishes(self, run: SimulatedRun, when: float) -> None:
        run.dies, run.states = dict.fromkeys(EVERY, when), dict.fromkeys(EVERY, "finished")

    def _is_replaced(self, run: SimulatedRun) -> bool:
        """Its rings are those of a later attempt."""
        return any(
            one.run == run.run and one.attempt > run.attempt and one.begun <= self.now
            for one in self.runs
        )


class HourConnection(SimulatedConnection):
    """Nodes that were taken away are scraped no more: nothing is said of their pages."""

    cluster: Hour

    def _up(self, query: str, time: float) -> list[Any]:
        told, tried = super()._up(query, time), TRIED.match(query)
        if tried is None:
            return told
        seconds = int(tried["ms"]) / 1000.0
        gone = f"127.0.{REMOVED}."
        taken = self.cluster.taken_away
        return [
            one for one in told
            if not one[0]["instance"].startswith(gone) or time - seconds < taken
        ]  # fmt: skip


class LiveHour(Days):
    """The hour, a real watch over it, and what people were told."""

    cluster: Hour

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, seed=0, rows=4, chaos=False, oracle=True)

    def _world(self, seed: int, rows: int) -> Cluster:
        del seed, rows
        return Hour()

    def _connection(self) -> SimulatedConnection:
        return HourConnection(self.cluster)

    def _verdict(self, diagnoses: Diagnoses, _: Any, seen: Any, wish: Any, *__: Any) -> None:
        verdict(diagnoses, self, seen, wish)

    @property
    def pages(self) -> list[Told]:
        """That somebody was called for."""
        return [one for one in self.alertmanager.told if one.labels["severity"] == "critical"]

    @property
    def faults(self) -> Counter[tuple[str, str, str]]:
        """(run, rank, cause) -> how often people were called."""
        return Counter(
            (one.labels["run"], one.labels.get("rank", ""), one.labels["cause"])
            for one in self.pages if one.firing
        )  # fmt: skip

    @property
    def warnings(self) -> list[str]:
        """What else was told."""
        every = self.alertmanager.told
        return [one.words["summary"] for one in every if one.firing and one not in self.pages]

    def end_of(self, cause: str) -> tuple[float, float]:
        """Seconds of the hour at which people were told that a fault is over, and its length."""
        [over] = [one for one in self.pages if not one.firing and one.labels["cause"] == cause]
        known = self.findings[over.words["archive"]].last
        assert known is not None
        return over.when - self.cluster.begun, known.lasted


EXPECTED = Counter({
    ("main", "2", "thermal"): 1, ("main", "1", "freeze"): 1, ("main", "3", "crash"): 1,
    ("long", "3", "xid"): 1,
})  # fmt: skip
"""What is wrong in that hour."""
