"""Which container got which NVIDIA device: the kubelet's pod-resources socket (GA since 1.28)."""

import threading
from dataclasses import dataclass
from pathlib import Path

from collector.clock import Clock
from collector.gpu_holding import PodDevice, PodDevices
from collector.reading import Rejected, SourceError
from collector.sources.pod_resources.kubelet import Kubelet
from collector.sources.pod_resources.messages import pod_devices

__all__ = ["KEPT_SECONDS", "PodResources", "PodResourcesReading"]

KEPT_SECONDS = 600.0
"""How long the last answer stands while the kubelet is down: pods outlive its restart."""
PERIOD_SECONDS, EARLY_SECONDS = 1.0, 0.1
"""At most one question a second; a turn that comes this early is no second one."""


@dataclass(frozen=True, slots=True)
class PodResourcesReading:
    """What the kubelet answered."""

    devices: tuple[PodDevice, ...]
    rejected: tuple[Rejected, ...] = ()


class PodResources:
    """Source of PodResourcesReading. The allocation source asks `held` from its own thread."""

    name = "pod_resources"

    def __init__(self, socket: Path, clock: Clock) -> None:
        self._socket = socket
        self._clock = clock
        self._kubelet = Kubelet(socket)
        self._lock = threading.Lock()
        self._due = float("-inf")
        self._bytes: bytes | None = None
        self._last: PodResourcesReading | SourceError = PodResourcesReading(())
        self._held: tuple[tuple[PodDevice, ...], float] | None = None

    def available(self) -> bool:
        """Whether this node has a kubelet, or had one when it last answered."""
        return self.held().age is not None or self._socket.exists()

    def why_not(self) -> str:
        """What is missing."""
        return f"no kubelet socket at {self._socket}; mount its folder and set paths.pod_resources"

    def close(self) -> None:
        """Close the connection."""
        self._kubelet.close()

    def read(self) -> PodResourcesReading:
        """Ask the kubelet, at most once a second; sooner, what it said before.

        Raises:
            SourceError: It did not answer, or nonsense. `held` still gives the last good answer.
        """
        now = self._clock.monotonic()
        if now >= self._due - EARLY_SECONDS:
            self._due = max(self._due, now) + PERIOD_SECONDS
            self._last = self._asked()
        if isinstance(self._last, SourceError):
            raise self._last
        return self._last

    def held(self) -> PodDevices:
        """The last good answer; none once it is older than KEPT_SECONDS."""
        with self._lock:
            held = self._held
        if held is None or (age := self._clock.monotonic() - held[1]) > KEPT_SECONDS:
            return PodDevices()
        return PodDevices(held[0], age)

    def _asked(self) -> PodResourcesReading | SourceError:
        try:
            answer = self._kubelet.list()
            if answer != self._bytes or not isinstance(self._last, PodResourcesReading):
                self._bytes, self._last = answer, PodResourcesReading(pod_devices(answer))
        except SourceError as error:
            return error
        with self._lock:
            self._held = self._last.devices, self._clock.monotonic()
        return self._last
