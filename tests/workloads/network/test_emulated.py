"""A link fault begins and ends with its steps, which the control process reads from the ring."""

import socket
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import monotonic_ns, sleep
from typing import Any
from uuid import uuid4

import pytest

from lockstep.collector.contract.ring import file_name
from lockstep.collector.contract.words import PHASES, FaultKind
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.network import netns
from lockstep.workloads.network.emulated import effects, emulated
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.names import fabric_address
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity

DELAY, BEGIN, END, STEPS = 0.05, 15, 22, 30
WHO = Identity("run", "node-1", "", 1, 2, 0, 0, 0, 0, 0, -1, 0, 0)


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Any]:
    """`opened(faults)`: the network of a run of two nodes, as a context."""

    def make(faults: list[Fault], *, asked: bool = False) -> Any:
        (tmp_path / "node-1").mkdir()
        return emulated(
            f"test-{uuid4().hex}", 2, 1, faults, asked=asked, seed=0, workspace=tmp_path,
            logs=tmp_path / "logs",
        )  # fmt: skip

    return make


def test_a_run_without_a_link_fault_has_no_network_unless_asked(opened: Callable[..., Any]) -> None:
    with opened([Fault(FaultKind.COMPUTE, 1, None, 1.5, BEGIN, END)]) as network:
        assert network is None


@pytest.mark.root
def test_a_run_that_asks_for_a_network_has_one_of_the_kernel(opened: Callable[..., Any]) -> None:
    with opened([], asked=True) as network:
        assert "tc on veth" == network.how
        assert "eth0" == network.interface


def test_without_root_a_network_is_refused_with_the_reason(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.workloads.network.emulated.no_namespaces", lambda: "needs root")
    with (
        pytest.raises(NetworkError, match="an emulated network needs root"),
        opened([], asked=True),
    ):
        pass


@pytest.mark.root
@pytest.mark.distributed
@pytest.mark.timed
def test_a_delay_is_in_force_from_its_first_step_to_its_last(
    opened: Callable[..., Any], forked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    setting = LinkSetting(delay=DELAY)
    fault = Fault(FaultKind.LINK_DELAY, None, 1, None, BEGIN, END, spec="late", link=setting)
    with opened([fault]) as network:
        own, other = network.namespace(0), network.namespace(1)
        walls = forked(2, lambda node: train(other, tmp_path) if node else echo(own))[1]
    seen = effects(tmp_path / "logs")["late"]

    # A delay slows most steps, from wherever a busy machine begins with it, and other work some.
    assert median(walls[BEGIN:END]) >= 2 * DELAY > min(walls[5:BEGIN])
    assert min(walls[END + 2 :]) < 2 * DELAY
    assert "" == seen["error"]
    assert DELAY == seen["delay_seconds"]
    during, before = (seen[side]["round_trip_seconds"] for side in ("during", "before"))
    assert during >= max(2 * DELAY, before)
    assert END - BEGIN == seen["during"]["steps"]


def echo(namespace: str) -> str:
    """Node 0: sends back what it gets."""
    netns.enter(namespace)
    with socket.create_server((str(fabric_address(0)), 4711)) as server:
        connection, _ = server.accept()
        while got := connection.recv(64):
            connection.sendall(got)
    return "done"


def train(namespace: str, workspace: Path) -> list[float]:
    """Node 1: steps of a short sleep and a round trip, told by a ring."""
    netns.enter(namespace)
    writer = RingWriter(workspace / "node-1" / file_name(1), WHO)
    for _ in range(200):
        try:
            client = socket.create_connection((str(fabric_address(0)), 4711), timeout=10)
            break
        except ConnectionRefusedError:  # the other process still starts
            sleep(0.02)
    walls = []
    for _ in range(STEPS):
        began = monotonic_ns()
        sleep(0.02)
        client.sendall(b"x")
        client.recv(1)
        wall = monotonic_ns() - began
        walls.append(wall / 1e9)
        writer.end_step(
            start_ns=began, wall_ns=wall, cpu_ns=0, own_ns=0, wait_ns=wall,
            phase_ns=[0] * len(PHASES), tags=0,
            samples=1, tokens=1, flops=0.0, loss=0.0,
        )  # fmt: skip
    client.close()
    return walls
