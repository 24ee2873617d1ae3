"""What came of a walk: when steps were, and the state of everything meanwhile."""

from dataclasses import dataclass, field, fields

import numpy as np

from lockstep.collector.contract.words import PHASES
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.network import Network
from tests.benchmarks.foreign.scenario import Scenario
from tests.benchmarks.simulated.arrays import Floats

WAITS = ("dp", "pp", "tp", "world")
"""Groups of collectives, in the order of the files."""


@dataclass
class Timeline:
    """Of the steps that were done; (steps, ranks) and seconds where nothing else is said.

    Attributes:
        start, end: Unix time.
        own: Outside of waiting; waits by group; phases by phase, which sum to a step.
        run_queue, throttled: In which a thread could run and had no processor, or no quota.
        tokens: Of a step.
        clock: Hertz; celsius, watts, busy (a share) likewise of GPUs.
        power_capped, hot, braked: In which a clock was held, by reason.
        transfers: (steps, groups) of gradients.
        host, disk, memory: (steps, nodes) as of `StepEffects`; outages likewise, of a port.
        levels: (steps, faults) 0 to 1.
        tags: (steps,) why slow by design.
        pauses: Rank, begin and end in unix time.
        stop: The fault that ended the run.
        finish: Unix time of the last end.
    """

    start: Floats
    end: Floats
    own: Floats
    cpu: Floats
    run_queue: Floats
    throttled: Floats
    tokens: Floats
    clock: Floats
    celsius: Floats
    watts: Floats
    busy: Floats
    power_capped: Floats
    hot: Floats
    braked: Floats
    transfers: Floats
    host: Floats
    disk: Floats
    memory: Floats
    outages: Floats
    levels: Floats
    phases: dict[str, Floats]
    waits: dict[str, Floats]
    network: Network
    faults: list[Fault]
    tags: list[str] = field(default_factory=list)
    pauses: list[tuple[int, float, float]] = field(default_factory=list)
    stop: Fault | None = None
    finish: float = 0.0

    @property
    def steps(self) -> int:
        return len(self.end)

    @property
    def wall(self) -> Floats:
        return self.end - self.start

    @property
    def longest(self) -> Floats:
        """(steps,) of all ranks."""
        longest: Floats = self.wall.max(1)
        return longest

    def level(self, fault: Fault) -> Floats:
        """(steps,) 0 to 1."""
        of_fault: Floats = self.levels[:, self.faults.index(fault)]
        return of_fault

    def cut(self, steps: int) -> None:
        """Forgets steps from this one on, which were not done."""
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                setattr(self, each.name, value[:steps])
        for table in (self.phases, self.waits):
            for name, value in table.items():
                table[name] = value[:steps]


def empty(scenario: Scenario, faults: list[Fault], network: Network) -> Timeline:
    """Of all steps, before any is done."""
    layout, steps = scenario.layout, scenario.length.steps

    def ranks() -> Floats:
        return np.zeros((steps, layout.ranks))

    nodes = (steps, layout.nodes)
    return Timeline(
        start=ranks(), end=ranks(), own=ranks(), cpu=ranks(), run_queue=ranks(),
        throttled=ranks(), tokens=ranks(), clock=ranks(), celsius=ranks(), watts=ranks(),
        busy=ranks(), power_capped=ranks(), hot=ranks(), braked=ranks(),
        transfers=np.zeros((steps, len(network.groups))), host=np.ones(nodes), disk=np.ones(nodes),
        memory=np.zeros(nodes), outages=np.zeros(nodes), levels=np.zeros((steps, len(faults))),
        phases={phase: ranks() for phase in PHASES}, waits={group: ranks() for group in WAITS},
        network=network, faults=faults,
    )  # fmt: skip
