"""Removes what ended pods left at the runtimes of nodes, as a kubelet since 1.22 does at once.

That of 1.20 deletes a pod only once its dead containers are removed, and looks for these once a
minute where they had ended before (ContainerGCPeriod, pkg/kubelet/kubelet.go): minutes of waiting
that test nothing. It asks the runtime by its CRI:
https://github.com/kubernetes/cri-api/blob/v0.20.2/pkg/apis/runtime/v1alpha2/api.proto
"""

import contextlib
import threading
from collections.abc import Iterator

import grpc

from tests.cluster.pods.real_nodes import RealNodes

LIST, REMOVE = (f"/runtime.v1alpha2.RuntimeService/{each}" for each in
                ("ListContainers", "RemoveContainer"))  # fmt: skip
EXITED = b"\x0a\x04\x12\x02\x08\x02"
"""ListContainersRequest{filter: {state: {state: CONTAINER_EXITED}}}."""
SECONDS = 0.5


@contextlib.contextmanager
def forgetting(nodes: RealNodes) -> Iterator[None]:
    """Until the block ends."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS):
            with contextlib.suppress(Exception):  # the API, or a node without power
                _forget(nodes)

    thread = threading.Thread(target=work, name="forgetting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _forget(nodes: RealNodes) -> None:
    """The dead containers of pods that were deleted and of which none runs."""
    over = {
        node: {
            pod.metadata.uid
            for pod in nodes.core.list_pod_for_all_namespaces(
                field_selector=f"spec.nodeName={node}"
            ).items
            if pod.metadata.deletion_timestamp
            and not any(one.state.running for one in pod.status.container_statuses or ())
        }
        for node in nodes.names
    }
    for node, uids in over.items():
        if not uids:
            continue
        socket = nodes.root(node) / "run/containerd/containerd.sock"
        with grpc.insecure_channel(f"unix:{socket}") as channel:
            for container in _fields(channel.unary_unary(LIST)(EXITED, timeout=5))[1]:
                told = _fields(container)
                labels = [_fields(one) for one in told[8]]
                known = {one[1][0].decode(): one[2][0].decode() for one in labels if one[2]}
                if known.get("io.kubernetes.pod.uid") in uids:
                    name = told[1][0]
                    request = b"\x0a" + bytes([len(name)]) + name
                    channel.unary_unary(REMOVE)(request, timeout=5)


class _Fields(dict[int, list[bytes]]):
    """Of a message, by number; those of no length are left out."""

    def __missing__(self, number: int) -> list[bytes]:
        return []


def _fields(message: bytes) -> _Fields:
    found, at = _Fields(), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            number()
            continue
        assert key & 7 == 2, "the CRI has no other"
        size = number()
        found.setdefault(key >> 3, []).append(message[at : at + size])
        at += size
    return found
