"""`lockstep doctor` finds and removes the networks of dead runs, and no one else's."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lockstep.workloads.network import namespaces, netns
from lockstep.workloads.network.capabilities import no_namespaces

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(no_namespaces() != "", reason=f"an emulated network {no_namespaces()}"),
]


@pytest.fixture
def left() -> Iterator[str]:
    """The token of a network that nobody owns: one namespace, one name without any."""
    token = uuid4().hex[:8]
    subprocess.run(["ip", "netns", "add", f"ls-{token}-0"], check=True)
    (netns.FOLDER / f"ls-{token}-1").touch()
    yield token
    namespaces.remove(token)


def test_a_network_that_nobody_owns_is_shown_and_removed_on_demand(
    left: str, lockstep: Callable[..., Any]
) -> None:
    assert left in json.loads(lockstep("doctor", "-o", "json").out)["leftovers"]
    assert left in json.loads(lockstep("doctor", "--clean", "-o", "json").out)["cleaned"]
    assert not [name for name in os.listdir(netns.FOLDER) if left in name]


def test_a_living_launchers_network_and_names_that_look_like_ours_are_kept(
    left: str, lockstep: Callable[..., Any]
) -> None:
    names = namespaces.create(f"test-{uuid4().hex}", 1)
    foreign = [f"ls-{left}-0x", f"ls-{left}-switch.old", f"ls-{left}"[:-1] + "-0"]
    try:
        for name in foreign:
            (netns.FOLDER / name).touch()
        cleaned = json.loads(lockstep("doctor", "--clean", "-o", "json").out)["cleaned"]

        assert left in cleaned
        assert names.token in namespaces.listed()
        assert set(foreign) <= set(os.listdir(netns.FOLDER))
    finally:
        namespaces.remove(names.token)
        for name in foreign:
            (netns.FOLDER / name).unlink(missing_ok=True)


def test_a_namespace_that_a_process_is_in_is_no_leftover(left: str) -> None:
    words = ["ip", "netns", "exec", f"ls-{left}-0", "sleep", "30"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as inside:
        try:
            while Path(f"/proc/{inside.pid}/comm").read_text() != "sleep\n":
                assert inside.poll() is None
            assert namespaces.inhabited(left)
        finally:
            inside.kill()
    assert not namespaces.inhabited(left)
