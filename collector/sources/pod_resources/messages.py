"""The kubelet's answer, from protobuf: the five messages that tell who got which NVIDIA device.

Fields are those of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto; the wire format is
https://protobuf.dev/programming-guides/encoding. The protobuf library would do the same for
2.7 MB of memory (measured), which is more than the rest of this source has.
"""

from collections.abc import Iterator

from lockstep.collector.gpu_holding import PodDevice
from lockstep.collector.reading import SourceError

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
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise SourceError("content", "the kubelet's answer has a field 0")
        if kind == _VARINT:
            _, place = _varint(message, place)
            continue
        if kind == _BYTES:
            size, start = _varint(message, place)
        elif kind in _FIXED_SIZES:
            size, start = _FIXED_SIZES[kind], place
        else:
            raise SourceError("content", f"the kubelet's answer has a field of type {kind}")
        place = start + size
        if place > len(message):
            raise SourceError("truncated", "the kubelet's answer ends inside a field")
        if kind == _BYTES:
            yield number, message[start:place]


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """(value, place behind it)."""
    value = 0
    for index, byte in enumerate(message[place : place + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, place + index + 1
    raise SourceError("truncated", "the kubelet's answer ends inside a number, or it is too long")
