"""Namespaces of a run come and go, and nothing else of the machine's network changes."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from lockstep.workloads.network import iproute, namespaces, netns
from lockstep.workloads.network.iproute import NetworkError
from lockstep.workloads.network.names import FABRIC, MANAGEMENT, Names, token_of

pytestmark = pytest.mark.root


def traces(token: str) -> list[str]:
    places = (netns.FOLDER, Path("/sys/class/net"))
    return [name for place in places for name in os.listdir(place) if token_of(name) == token]


def told(*words: str) -> Any:
    return json.loads(subprocess.run(words, capture_output=True, check=True).stdout or b"[]")


def test_what_is_made_is_found_with_its_owner_and_removed_whole(
    make_network: Callable[[int], Names],
) -> None:
    names = make_network(8)
    owner = namespaces.listed()[names.token]

    assert owner is not None
    assert (os.getpid(), namespaces.start_ticks(os.getpid())) == (owner.pid, owner.start_ticks)
    assert 8 + 2 == len(traces(names.token))
    namespaces.remove(names.token)
    assert [] == traces(names.token)
    assert names.token not in namespaces.listed()


def test_the_machines_own_network_is_left_alone(make_network: Callable[[int], Names]) -> None:
    words = [("ip", "-j", "route", "show", "table", "main"), ("ip", "-j", "address", "show")]
    before = [told(*line) for line in words]
    names = make_network(2)
    after = [told(*line) for line in words]

    def others(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        devices = (entry.get("dev", entry.get("ifname")) for entry in entries)
        return [e for e, device in zip(entries, devices, strict=True) if not ours(str(device))]

    def ours(device: str) -> bool:  # other tests' networks come and go beside this one
        return token_of(device.removesuffix("p")) is not None

    assert [others(entries) for entries in before] == [others(entries) for entries in after]
    assert any(entry["ifname"] == names.station for entry in after[1])


def test_nodes_see_their_own_devices_and_the_cgroups_stay_in_view(
    make_network: Callable[[int], Names], forked: Callable[..., list[Any]], tmp_path: Path
) -> None:
    names = make_network(2)
    groups = sorted(os.listdir("/sys/fs/cgroup"))

    def look(node: int) -> Any:
        scratch = tmp_path / str(node)
        scratch.mkdir()
        netns.enter(names.namespace(node))
        netns.show_own_devices(scratch)
        table = Path("/proc/net/dev").read_text()
        return {
            "sys": sorted(os.listdir("/sys/class/net")),
            "proc": sorted(line.split(":")[0].strip() for line in table.splitlines()[2:]),
            "groups": sorted(os.listdir("/sys/fs/cgroup")),
            "mtu": (Path("/sys/class/net") / FABRIC / "mtu").read_text(),
        }

    wanted = sorted(["lo", FABRIC, MANAGEMENT])
    for seen in forked(2, look):
        assert {"sys": wanted, "proc": wanted, "groups": groups, "mtu": "1500\n"} == seen
    assert wanted != sorted(os.listdir("/sys/class/net"))  # ours is as it was


def test_two_processes_in_two_namespaces_exchange_data(
    make_network: Callable[[int], Names], forked: Callable[..., list[Any]]
) -> None:
    names = make_network(2)

    def talk(node: int) -> str:
        netns.enter(names.namespace(node))
        where = str(names.address(0)), 4711
        if node == 0:
            with socket.create_server(where) as server:
                connection, (sender, _) = server.accept()
                connection.sendall(sender.encode())
                return "served"
        for _ in range(500):
            with (
                contextlib.suppress(ConnectionRefusedError),  # the other process still starts
                socket.create_connection(where, timeout=10) as client,
            ):
                return client.recv(64).decode()
            sleep(0.02)
        return "nobody listens"

    assert ["served", str(names.address(1))] == forked(2, talk)


def test_the_recorder_reaches_every_collector(
    make_network: Callable[[int], Names],
) -> None:
    names = make_network(3)
    for node in range(3):
        with netns.inside(names.namespace(node)):
            server = socket.create_server((str(names.management_address(node)), 0))
        with server, socket.create_connection(server.getsockname(), timeout=10) as client:
            assert str(names.station_address) == client.getsockname()[0]


def test_a_node_too_many_is_refused() -> None:
    with pytest.raises(NetworkError, match="65 emulated nodes; a network has 1 to 64"):
        namespaces.create("test-too-many", 65)


def test_what_the_kernel_refuses_is_told_in_one_sentence() -> None:
    with (
        pytest.raises(NetworkError, match=r"was refused: there is no device ls-none") as told,
        iproute.kernel() as calls,
    ):
        iproute.set_link(calls, "ls-none", state="up")
    assert "\n" not in str(told.value)
    with pytest.raises(NetworkError, match=r"was refused: File exists"), iproute.kernel() as calls:
        calls.link("add", kind="bridge", ifname="lo")


def test_to_remove_what_is_not_there_is_no_error() -> None:
    namespaces.remove("0123abcd")


def test_the_kernel_is_asked_from_a_thread_with_an_event_loop_too() -> None:
    async def asked() -> bool:
        return bool(iproute.own_networks())

    with ThreadPoolExecutor(1) as thread:  # this one may have a loop running, of a browser
        assert thread.submit(lambda: asyncio.run(asked())).result()
