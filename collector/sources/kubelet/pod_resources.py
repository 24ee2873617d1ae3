"""Which container got which NVIDIA device: the kubelet's pod-resources socket (GA since 1.28)."""

import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.readings.gpu import PodDevice, PodDevices
from lockstep.collector.readings.source import Rejected, SourceError

# The kubelet's answer in protobuf: the five messages with who got which NVIDIA device.
#
# Fields are those of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto; the wire format is
# https://protobuf.dev/programming-guides/encoding. The protobuf library would do the same for
# 2.7 MB of memory (measured), which is more than the rest of this source has.

MAX_DEVICES = 4096
"""Devices taken from one answer: 110 pods a node (the kubelet's default) and many replicas."""
MAX_TEXT_BYTES = 512
"""No name or id of Kubernetes is longer than 253 characters."""
NVIDIA = "nvidia.com"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10


def pod_devices(answer: bytes) -> tuple[PodDevice, ...]:
    """NVIDIA devices in a ListPodResourcesResponse.

    Raises:
        SourceError: It is no such message.
    """
    devices: list[PodDevice] = []
    for pod in _messages(answer, 1):
        namespace, name = _text(pod, 2), _text(pod, 1)
        for container in _messages(pod, 3):
            owner = namespace, name, _text(container, 1)
            devices += (PodDevice(*owner, *what) for what in _by_plugin(container))
            devices += (PodDevice(*owner, *what) for what in _by_claim(container))
            if len(devices) > MAX_DEVICES:
                raise SourceError("too_many", f"more than {MAX_DEVICES} devices in one answer")
    return tuple(devices)


def _by_plugin(container: bytes) -> Iterator[tuple[str, str]]:
    """(resource, device id) of ContainerDevices."""
    for given in _messages(container, 2):
        resource = _text(given, 1)
        if resource.startswith(f"{NVIDIA}/"):
            yield from ((resource, _checked(device)) for device in _messages(given, 2))


def _by_claim(container: bytes) -> Iterator[tuple[str, str, str]]:
    """(driver, device, claim) of DynamicResource; the device has its CDI names behind it.

    The name of a device may say nothing of its uuid, its CDI name sometimes does.
    """
    for dynamic in _messages(container, 5):
        claim = f"{_text(dynamic, 3)}/{_text(dynamic, 2)}"
        for resource in _messages(dynamic, 4):
            cdi_names = [_text(device, 1) for device in _messages(resource, 1)]
            driver, words = _text(resource, 2), [_text(resource, 4), *cdi_names]
            if NVIDIA in driver or any(NVIDIA in name for name in cdi_names):
                yield driver, " ".join(word for word in words if word), claim


def _messages(message: bytes, number: int) -> list[bytes]:
    """The values of a field that holds bytes, text or messages."""
    return [value for field, value in _fields(message) if field == number]


def _text(message: bytes, number: int) -> str:
    """The value of a text field; protobuf leaves out one that is empty, and the last one wins."""
    values = _messages(message, number)
    return _checked(values[-1]) if values else ""


def _checked(raw: bytes) -> str:
    if len(raw) > MAX_TEXT_BYTES:
        raise SourceError("content", f"a name of {len(raw)} bytes in the kubelet's answer")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise SourceError("encoding", "a name in the kubelet's answer is not UTF-8") from error
    if not text.isprintable():
        raise SourceError("content", f"a name in the kubelet's answer is {text!r}")
    return text


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, value) of the fields that hold bytes; numbers are stepped over."""
    offset = 0
    while offset < len(message):
        key, offset = _varint(message, offset)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise SourceError("content", "the kubelet's answer has a field 0")
        if kind == _VARINT:
            _, offset = _varint(message, offset)
            continue
        if kind == _BYTES:
            size, start = _varint(message, offset)
        elif kind in _FIXED_SIZES:
            size, start = _FIXED_SIZES[kind], offset
        else:
            raise SourceError("content", f"the kubelet's answer has a field of type {kind}")
        offset = start + size
        if offset > len(message):
            raise SourceError("truncated", "the kubelet's answer ends inside a field")
        if kind == _BYTES:
            yield number, message[start:offset]


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """(value, place behind it)."""
    value = 0
    for index, byte in enumerate(message[offset : offset + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, offset + index + 1
    raise SourceError("truncated", "the kubelet's answer ends inside a number, or it is too long")


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
