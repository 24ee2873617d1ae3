"""A device plugin without devices: a kubelet is told of so many GPUs, by name.

https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto
"""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

RESOURCE, SOCKET = "nvidia.com/gpu", "lockstep-tests.sock"
RAW: dict[str, Any] = {"request_deserializer": None, "response_serializer": None}


@contextlib.contextmanager
def device_plugin(folder: Path, uuids: tuple[str, ...]) -> Iterator[None]:
    """Until the block ends; `folder` is the kubelet's device-plugins."""
    ended = threading.Event()

    def list_and_watch(_: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"".join(_field(1, _field(1, uuid) + _field(2, "Healthy")) for uuid in uuids)
        while context.is_active() and not ended.wait(0.2):
            pass

    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([
        grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", {
            "GetDevicePluginOptions": unary(lambda *_: b"", **RAW),
            "ListAndWatch": stream(list_and_watch, **RAW),
            "Allocate": unary(lambda *_: _field(1, b""), **RAW),
            "PreStartContainer": unary(lambda *_: b"", **RAW),
        })
    ])  # fmt: skip
    server.add_insecure_port(f"unix:{folder / SOCKET}")
    server.start()
    try:
        with grpc.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register")
            told = _field(1, "v1beta1") + _field(2, SOCKET) + _field(3, RESOURCE)
            register(told, timeout=10, wait_for_ready=True)
        yield
    finally:
        ended.set()
        server.stop(1).wait(5)
        (folder / SOCKET).unlink(missing_ok=True)


def _field(number: int, value: str | bytes) -> bytes:
    """Of protobuf, with a length below 128."""
    content = value.encode() if isinstance(value, str) else value
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content
