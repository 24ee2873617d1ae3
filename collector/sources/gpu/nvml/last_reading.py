"""What one GPU last said, as its process told it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.gpu import Gpu, Values
from lockstep.collector.readings.source import Rejected


@dataclass(slots=True)
class GpuSlot:
    """One place in the driver's count.

    Attributes:
        at: When it last answered.
        asked_at: When it was asked what it has not answered yet, or None.
        lost: Why it does not answer as it should, or None.
    """

    index: int
    uuid: str = ""
    info: dict[str, str] = field(default_factory=dict)
    migs: list[dict[str, Any]] = field(default_factory=list)
    fast: Values = field(default_factory=dict)
    parts: list[Values] = field(default_factory=list)
    slow: Values = field(default_factory=dict)
    at: float = -math.inf
    interval: float | None = None
    lost: str | None = None
    asked_at: float | None = None

    def ask(self, now: float) -> None:
        """It is asked, unless it owes an answer already."""
        if self.asked_at is None:
            self.asked_at = now

    def take(self, message: Mapping[str, Any]) -> Iterator[Rejected]:
        """Its answer; what of it failed."""
        self.asked_at = None
        self.interval = message["at"] - self.at if self.at > -math.inf else None
        self.at, self.lost = message["at"], message.get("lost")
        for word, count in message["errors"].items():
            yield Rejected(word, f"GPU {self.index}: {count} calls failed: {word}")
        if self.lost is not None:
            self.fast, self.slow, self.parts = {}, {}, []
            yield Rejected(self.lost.partition(":")[0], f"GPU {self.index}: {self.lost}")
            return
        if "uuid" in message:
            if message["uuid"] != self.uuid:
                self.interval = None
            self.uuid, self.info, self.migs = message["uuid"], message["info"], message["migs"]
            self.slow = message["slow"]
        self.fast, self.parts = message["fast"], message["mig"]

    def stalled(self, now: float, limit: float) -> bool:
        """Whether it owes an answer for longer than that."""
        return self.asked_at is not None and now - self.asked_at > limit

    def down(self, *, stalled: bool) -> Gpu:
        """It, without any value."""
        return Gpu(self.index, self.uuid, up=False, stalled=stalled)

    def gpus(self) -> Iterator[Gpu]:
        """It and its MIG devices."""
        values = merged(self.slow, self.fast)
        if self.interval is not None:
            values[m.GPU_SAMPLE_INTERVAL.name] = {"": self.interval}
        yield Gpu(self.index, self.uuid, info=self.info, values=values)
        for part, reading in zip(self.migs, self.parts, strict=False):
            yield Gpu(self.index, part["uuid"], info=part["info"], values=reading)


def merged(slow: Values, fast: Values) -> dict[str, Mapping[str, float]]:
    """Both, metric by metric; label by label where both tell of one."""
    both = {name: {**slow[name], **fast[name]} for name in slow.keys() & fast.keys()}
    return {**slow, **fast, **both}
