"""Networks of emulated nodes that a test may disturb; removed after it, whatever happened."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

from lockstep.workloads.network import capabilities, namespaces, netns
from lockstep.workloads.network.links import KernelLinks
from lockstep.workloads.network.names import Names
from lockstep.workloads.network.tunnel import Tunnel

MakeNetwork = Callable[..., Names]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is marked `root` in this folder needs namespaces."""
    if item.get_closest_marker("root") and capabilities.no_namespaces():
        pytest.skip(f"an emulated network {capabilities.no_namespaces()}")


@pytest.fixture
def make_network() -> Iterator[MakeNetwork]:
    """`make_network(nodes)` creates one; `with_fabric=False` leaves `eth0` to a tunnel."""
    made: list[Names] = []

    def make(nodes: int, *, with_fabric: bool = True) -> Names:
        made.append(namespaces.create(f"test-{uuid4().hex}", nodes, with_fabric=with_fabric))
        return made[-1]

    yield make
    for names in made:
        namespaces.remove(names.token)


@pytest.fixture
def bridged(make_network: MakeNetwork) -> tuple[Names, KernelLinks]:
    """Three nodes that the kernel links."""
    names = make_network(3)
    return names, KernelLinks(names)


@pytest.fixture
def tunnelled(make_network: MakeNetwork, tmp_path: Path) -> Iterator[tuple[Names, Tunnel]]:
    """Three nodes that the user-space link connects."""
    names = make_network(3, with_fabric=False)
    tunnel = Tunnel(names, tmp_path / "tunnel.log", seed=0)
    yield names, tunnel
    tunnel.close()


@pytest.fixture
def transfer() -> Iterator[Callable[[Names, int, int, int], float]]:
    """`transfer(names, source, destination, size)`: seconds until all bytes have arrived whole."""
    with ExitStack() as stack:

        def measure(names: Names, source: int, destination: int, size: int) -> float:
            with netns.inside(names.namespace(destination)):
                server = stack.enter_context(
                    socket.create_server((str(names.address(destination)), 0))
                )
            with netns.inside(names.namespace(source)):
                client = stack.enter_context(socket.socket())
            client.settimeout(20.0)
            client.connect(server.getsockname())
            receiver = threading.Thread(target=_acknowledge, args=(server, size))
            receiver.start()
            began = monotonic()
            client.sendall(bytes(range(256)) * (size // 256))
            whole = client.recv(1)
            seconds = monotonic() - began
            receiver.join()
            assert b"w" == whole
            return seconds

        yield measure


def _acknowledge(server: socket.socket, size: int) -> None:
    connection, _ = server.accept()
    with connection:
        got = bytearray()
        while len(got) < size:
            got += connection.recv(1 << 20)
        connection.sendall(b"w" if bytes(got) == bytes(range(256)) * (size // 256) else b"x")
