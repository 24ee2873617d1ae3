"""A run on a cluster in memory, with a clock that the pauses move."""

from dataclasses import dataclass
from typing import Any

from lockstep.workloads.launch.kubernetes.cluster_run import ClusterRun
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.spec import RunSpec
from tests.workloads.launch.kubernetes.conftest import RUN, FakeCluster


@dataclass(slots=True)
class Story:
    """A clock that the pauses move, and what happens at which second."""

    cluster: FakeCluster
    happens: dict[int, Any]
    now: float = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        for second, act in self.happens.items():
            if before < second <= self.now:
                act()


@dataclass(slots=True)
class Told:
    """What was told, stage by stage."""

    said: list[tuple[str, str]]

    def __call__(self, stage: str, words: str) -> None:
        self.said.append((stage, words))

    @property
    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, _ in self.said))


def started(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, happens: dict[int, Any]
) -> ClusterRun:
    story = Story(cluster, happens)
    run = ClusterRun(
        cluster, submission(spec, settings, ["true"]), RUN, settings, story.clock, story.pause
    )
    run.create()
    return run
