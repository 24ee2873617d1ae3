"""What a link fault did to the link, beside what it did to the steps; for truth.json."""

import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault

REPORT_FILE = "links.json"
PEAK_SECONDS = 0.02
"""The shortest span over which a rate is taken: a few packets of 64 KB at 200 Mbit/s."""


@dataclass(slots=True)
class State:
    """One side of the onset.

    Attributes:
        peak_bits_per_second: The fastest that the node sent or got over PEAK_SECONDS; during the
            fault, with what was last in force.
        round_trip_seconds: To the peer and back; None = not measured, or nothing came back.
        retransmitted: TCP segments that the node sent again.
        steps: Steps that this was seen over.
    """

    peak_bits_per_second: float = 0.0
    round_trip_seconds: float | None = None
    retransmitted: int = 0
    steps: int = 0


@dataclass(slots=True)
class Observation:
    """What was seen of one fault.

    Attributes:
        how: What put it into force.
        healthy_step_seconds: Wall time of a step before.
        bits_per_step: What a healthy step sends or gets, whichever is more.
        setting: What was last in force, at full strength.
        error: Why the fault could not be put into force, or stay there; empty if it was.
    """

    fault: Fault
    how: str
    healthy_step_seconds: float = 0.0
    bits_per_step: float = 0.0
    setting: LinkSetting = field(default_factory=LinkSetting)
    before: State = field(default_factory=State)
    during: State = field(default_factory=State)
    error: str = ""
    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def traffic(self, now: float, bits: int, *, in_force: bool) -> None:
        """Take a reading of the node's counter."""
        self._seen.append((now, bits))
        while len(self._seen) > 2 and now - self._seen[1][0] >= PEAK_SECONDS:
            self._seen.popleft()
        then, bits_then = self._seen[0]
        if now - then >= PEAK_SECONDS:
            state = self.during if in_force else self.before
            rate = (bits - bits_then) / (now - then)
            state.peak_bits_per_second = max(state.peak_bits_per_second, rate)

    def turned(self, setting: LinkSetting) -> None:
        """The link has changed: no rate is taken over both sides; the last one's peak counts."""
        self._seen.clear()
        if setting != LinkSetting():
            self.during.peak_bits_per_second = 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "spec": self.fault.spec,
            "how": self.how,
            "healthy_step_seconds": self.healthy_step_seconds,
            "bits_per_step": self.bits_per_step,
            "rate_bits_per_second": self.setting.rate,
            "delay_seconds": self.setting.delay,
            "jitter_seconds": self.setting.jitter,
            "loss": self.setting.loss,
            "before": _state(self.before),
            "during": _state(self.during),
            "error": self.error,
        }


def _state(state: State) -> dict[str, Any]:
    return {
        "peak_bits_per_second": state.peak_bits_per_second,
        "round_trip_seconds": state.round_trip_seconds,
        "retransmitted_segments": state.retransmitted,
        "steps": state.steps,
    }


def write(folder: Path, observations: list[Observation]) -> None:
    """Leave them where the launcher finds them, whole or not at all."""
    text = json.dumps([observation.to_json() for observation in observations])
    write_whole(folder / REPORT_FILE, text, mode=None)


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What was seen, by the fault's SPEC; empty where no link fault was steered."""
    try:
        listed = bounded_json.read(folder / REPORT_FILE)
    except FileNotFoundError:
        return {}
    return {item["spec"]: item for item in listed}
