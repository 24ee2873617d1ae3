"""Which container got which NVIDIA device: the kubelet's pod-resources socket (GA since 1.28)."""

import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.gpu_holding import PodDevice, PodDevices
from lockstep.collector.reading import Rejected, SourceError
from lockstep.collector.sources.pod_resources.messages import pod_devices

__all__ = ["KEPT_SECONDS", "PodResources", "PodResourcesReading"]

KEPT_SECONDS = 600.0
"""How long the last answer stands while the kubelet is down: pods outlive its restart."""
PERIOD_SECONDS, EARLY_SECONDS = 3.0, 0.1
"""At most one question in so long: each costs gRPC's threads ten times what a file costs. A turn
that comes this early is no second one."""


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
        """Ask the kubelet, at most every PERIOD_SECONDS; sooner, what it said before.

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


METHOD = "/v1.PodResourcesLister/List"
DEADLINE_SECONDS = 1.0
MAX_ANSWER_BYTES = 16 << 20
"""As much as the kubelet's own client takes (its defaultPodResourcesMaxSize)."""
RECONNECT_MILLISECONDS = 500
"""gRPC would wait up to two minutes before it looks for a restarted kubelet again."""
_REASONS = {"DEADLINE_EXCEEDED": "timeout", "UNAVAILABLE": "unreachable"}


class Kubelet:
    """Asks for the list of pod resources, over one channel as long as the calls succeed or fail."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel: Any = None
        self._list: Any = None

    def list(self) -> bytes:
        """The bytes of a ListPodResourcesResponse.

        Raises:
            SourceError: There is no usable socket, or no answer within DEADLINE_SECONDS.
        """
        self._check_socket()
        # Imported here: 15 MB that a node without a kubelet does not have to pay.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it tells us what failed; no need to log
        try:
            import grpc
        except ImportError as error:
            raise SourceError("missing", "grpcio is not installed (extra: collector)") from error

        if self._channel is None:
            self._open(grpc)
        try:
            answer: bytes = self._list(b"", timeout=DEADLINE_SECONDS)
        except grpc.RpcError as error:
            code = error.code().name
            reason = _REASONS.get(code, "refused")
            raise SourceError(reason, f"{self._socket}: {code}: {_sentence(error)}") from error
        return answer

    def close(self) -> None:
        """Give the channel up."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self, grpc: Any) -> None:
        options = (
            ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
            ("grpc.initial_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.min_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.max_reconnect_backoff_ms", RECONNECT_MILLISECONDS),
            ("grpc.enable_http_proxy", 0),
        )
        # The address as a plain path: in a URI some characters of a folder would mean something.
        self._channel = grpc.insecure_channel(f"unix:{self._socket.absolute()}", options)
        self._list = self._channel.unary_unary(METHOD)  # no serializers: bytes in, bytes out

    def _check_socket(self) -> None:
        """Name in one word what gRPC tells at length."""
        try:
            mode = self._socket.lstat().st_mode
        except PermissionError as error:
            raise SourceError("permission", f"{self._socket}: {error.strerror}") from error
        except OSError as error:
            raise SourceError("missing", f"{self._socket}: {error.strerror}") from error
        if not stat.S_ISSOCK(mode):
            raise SourceError("not_socket", f"{self._socket} is not a socket")
        if not os.access(self._socket, os.R_OK | os.W_OK):
            raise SourceError("permission", f"{self._socket}: this user may not connect to it")


def _sentence(error: Any) -> str:
    """The details of a failed call, on one line and not too long."""
    return " ".join(str(error.details() or "no details").split())[:200]
