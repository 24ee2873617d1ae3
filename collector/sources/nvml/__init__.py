"""NVIDIA GPUs through NVML, which runs in a process of its own: a driver that hangs hangs alone."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collector.clock import Clock
from collector.contract import metrics as m
from collector.gpu_reading import Gpu, GpuReading, Values
from collector.reading import Rejected, SourceError
from collector.sources.nvml import library
from collector.sources.nvml.process import Child

__all__ = ["Limits", "Nvml"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds.

    Attributes:
        answer: How long a reading waits for GPUs that have not answered yet.
        start: How long a reading waits for a process that was just started.
        stall: A GPU that has not answered for so long is stalled.
        kill: The process is killed when no GPU has answered for so long.
        attach: The process is killed when NVML's initialisation takes so long.
    """

    answer: float = 0.4
    start: float = 1.2
    stall: float = 3.0
    kill: float = 6.0
    attach: float = 30.0


@dataclass(slots=True)
class _Seen:
    """What a GPU last said."""

    uuid: str = ""
    info: dict[str, str] = field(default_factory=dict)
    migs: list[dict[str, Any]] = field(default_factory=list)
    fast: Values = field(default_factory=dict)
    parts: list[Values] = field(default_factory=list)
    slow: Values = field(default_factory=dict)
    slow_at: float = -math.inf
    at: float = -math.inf
    interval: float | None = None
    lost: str | None = None
    asked_at: float | None = None


class Nvml:
    """Source of GpuReading.

    Args:
        search: Finds the copies of libnvidia-ml; the first is used.
    """

    name = "nvml"

    def __init__(
        self,
        proc: Path,
        sys: Path,
        clock: Clock,
        slow_period: float = 30.0,
        limits: Limits | None = None,
        search: Callable[[], list[Path]] = lambda: library.search(os.environ),
    ) -> None:
        self._proc, self._sys, self._clock = proc, sys, clock
        self._slow_period = slow_period
        self._limits = limits or Limits()
        self._search = search
        self._child = Child(slow_period)
        self._signature: tuple[str, ...] | None = None
        self._copies: list[Path] = []
        self._gpus: dict[int, _Seen] = {}
        self._present: int | None = None
        self._attached = False
        self._attached_at = -math.inf
        self._expected: int | None = None
        self._expected_at = -math.inf
        self._failure: SourceError | None = None

    def available(self) -> bool:
        """Whether the driver's library is on this machine."""
        return bool(self._search())

    def why_not(self) -> str:
        """What is missing."""
        return f"{library.NAME} is in none of {library.searched(os.environ)}"

    def read(self) -> GpuReading:
        """Ask every GPU that is not stalled, and wait for the answers for a short while.

        Raises:
            SourceError: NVML cannot be used: the message says why and what would help.
        """
        now = self._clock.monotonic()
        rejected: list[Rejected] = []
        path = self._library(rejected)
        self._notice_driver()
        for _ in range(2):  # a process that ends because the machine changed is started at once
            if self._child.start(path, now):
                self._attached, self._failure = False, None
                self._hear_until(now + self._limits.start, lambda: self._attached, rejected)
            self._ask(now)
            end = self._clock.monotonic() + self._limits.answer
            self._hear_until(end, lambda: self._told_since(now), rejected)
            if self._child.runs:
                break
        if self._failure is not None and not self._child.runs:
            raise self._failure
        self._end_what_hangs(rejected)
        return self._reading(rejected)

    def close(self) -> None:
        """End the process."""
        self._child.end(self._clock.monotonic())

    def _library(self, rejected: list[Rejected]) -> Path:
        copies = self._search()
        if not copies:
            raise SourceError("missing", f"{library.NAME} is not on this machine")
        if len(copies) > 1 and copies != self._copies:
            others = ", ".join(str(path) for path in copies[1:])
            text = f"{copies[0]} is used; there are other copies: {others}"
            rejected.append(Rejected("two_libraries", text))
        self._copies = copies
        return copies[0]

    def _notice_driver(self) -> None:
        now = library.signature(self._proc)
        if now != self._signature:
            self._child.hurry()
            self._expected_at = -math.inf
        self._signature = now

    def _ask(self, now: float) -> None:
        if self._child.runs:
            for seen in self._gpus.values():
                if seen.asked_at is None:
                    seen.asked_at = now
            self._child.tick()

    def _told_since(self, asked: float) -> bool:
        """Whether all have answered that were asked then; who was asked before keeps nobody."""
        return self._attached and not any(
            seen.asked_at is not None and seen.asked_at >= asked for seen in self._gpus.values()
        )

    def _hear_until(self, end: float, enough: Callable[[], bool], rejected: list[Rejected]) -> None:
        for message in self._child.hear(0):  # what came late, of those whom nobody waits for
            self._take(message, rejected)
        while self._child.runs and not enough():
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            for message in self._child.hear(left):
                self._take(message, rejected)

    def _take(self, message: Mapping[str, Any], rejected: list[Rejected]) -> None:
        now = self._clock.monotonic()
        if "gpu" in message:
            self._take_gpu(message, rejected)
        elif "present" in message:
            self._attached, self._attached_at = True, now
            self._present = message["present"]
            self._gpus = {
                index: self._gpus.get(index, _Seen()) for index in range(message["present"])
            }
            for seen in self._gpus.values():  # one that hung stays stalled until it answers
                seen.asked_at = seen.asked_at or now
        elif "changed" in message:
            self._child.end(now)
            self._child.hurry()
        elif "failed" in message:
            self._child.end(now)
            self._gpus, self._present = {}, None
            self._failure = _explained(message, self._copies[0], library.kernel_module(self._proc))
        elif "ended" in message:
            self._child.end(now)
            for seen in self._gpus.values():
                seen.asked_at = seen.asked_at or now

    def _take_gpu(self, message: Mapping[str, Any], rejected: list[Rejected]) -> None:
        seen = self._gpus.get(message["gpu"])
        if seen is None:
            return
        self._child.well()
        seen.asked_at = None
        seen.interval = message["at"] - seen.at if seen.at > -math.inf else None
        seen.at, seen.lost = message["at"], message.get("lost")
        if seen.lost is not None:
            rejected.append(Rejected(seen.lost, f"GPU {message['gpu']}: {seen.lost}"))
            seen.fast, seen.slow, seen.parts = {}, {}, []
            return
        if "uuid" in message:
            if message["uuid"] != seen.uuid or message["migs"] != seen.migs:
                seen.slow, seen.slow_at = {}, -math.inf
            seen.uuid, seen.info, seen.migs = message["uuid"], message["info"], message["migs"]
        seen.fast, seen.parts = message["fast"], message["mig"]
        if "slow" in message:
            seen.slow, seen.slow_at = message["slow"], message["at"]
        for word, count in message["errors"].items():
            what = f"GPU {message['gpu']}: {count} calls failed: {word}"
            rejected.append(Rejected(word.partition(":")[0], what))

    def _stalled(self, seen: _Seen, now: float) -> bool:
        return seen.asked_at is not None and now - seen.asked_at > self._limits.stall

    def _end_what_hangs(self, rejected: list[Rejected]) -> None:
        now = self._clock.monotonic()
        if not self._child.runs:
            return
        asked = [seen.asked_at for seen in self._gpus.values() if seen.lost is None]
        since = [at for at in asked if at is not None]
        hangs = (
            bool(since)
            and len(since) == len(asked)
            and now - max(*since, self._attached_at) > self._limits.kill
        )
        slow_start = not self._attached and now - self._child.started_at > self._limits.attach
        if hangs or slow_start:
            rejected.append(Rejected("killed", "the driver does not answer; its process is killed"))
            if self._child.end(now) is None:
                rejected.append(
                    Rejected("unkillable", "the process that asks the driver does not end")
                )

    def _reading(self, rejected: list[Rejected]) -> GpuReading:
        now = self._clock.monotonic()
        gpus: list[Gpu] = []
        stalled = {index: self._stalled(seen, now) for index, seen in self._gpus.items()}
        for index, seen in self._gpus.items():
            if stalled[index] or seen.lost is not None:
                gpus.append(Gpu(index, seen.uuid, up=False, stalled=stalled[index]))
            elif seen.at > -math.inf:
                gpus += self._told(index, seen)
        waits = not self._attached and now - self._child.started_at > self._limits.stall
        return GpuReading(
            gpus=tuple(gpus),
            rejected=tuple(rejected),
            expected=self._on_the_bus(now),
            present=self._present,
            stalled=waits or (bool(stalled) and all(stalled.values())),
        )

    def _on_the_bus(self, now: float) -> int | None:
        if now - self._expected_at >= self._slow_period:
            self._expected, self._expected_at = library.on_the_bus(self._sys), now
        return self._expected

    def _told(self, index: int, seen: _Seen) -> list[Gpu]:
        slow = seen.slow if seen.at - seen.slow_at <= 2.5 * self._slow_period else {}
        values = merged(slow, seen.fast)
        if seen.interval is not None:
            values[m.GPU_SAMPLE_INTERVAL.name] = {"": seen.interval}
        gpus = [Gpu(index, seen.uuid, info=seen.info, values=values)]
        for part, told in zip(seen.migs, seen.parts, strict=False):
            gpus.append(Gpu(index, part["uuid"], info=part["info"], values=told))
        return gpus


def merged(slow: Values, fast: Values) -> dict[str, Mapping[str, float]]:
    """Both, metric by metric and label by label."""
    return {
        name: {**slow.get(name, {}), **fast.get(name, {})} for name in dict.fromkeys([*fast, *slow])
    }


def _explained(message: Mapping[str, Any], path: Path, module: str | None) -> SourceError:
    word = str(message["failed"])
    kernel = f"kernel module {module}" if module else "no loaded kernel module"
    match word:
        case "lib_rm_version_mismatch":
            version = library.file_version(path)
            text = f"{path} {version} does not fit the {kernel}: reload the driver or reboot"
        case "driver_not_loaded":
            text = f"{path} found, but {kernel}: load the driver (modprobe nvidia)"
        case "no_permission":
            text = (
                f"user {os.geteuid()} may not open /dev/nvidiactl; give it access to /dev/nvidia*"
            )
        case "no_binding":
            text = "nvidia-ml-py is missing: pip install 'lockstep-monitor[collector]'"
        case _:
            text = str(message.get("message", word))
    return SourceError(word, text)
