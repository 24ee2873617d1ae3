"""What a machine cannot do is told with the reason and what would mend it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.network import capabilities, iproute, netns
from lockstep.workloads.network.iproute import NetworkError

BANDWIDTH, DELAY = FaultKind.LINK_BANDWIDTH, FaultKind.LINK_DELAY


@pytest.fixture(autouse=True)
def unprobed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine of root's, about which nothing is known yet."""
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 0)
    monkeypatch.setattr(iproute, "find_spec", lambda name: name)
    monkeypatch.setattr(capabilities.netns, "fresh", lambda: _Nothing())
    monkeypatch.setattr(iproute, "kernel", without())
    monkeypatch.setattr(capabilities, "probe_device", lambda: None)
    caches = [each for each in vars(capabilities).values() if hasattr(each, "cache_clear")]
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def without(*words: str) -> Callable[..., Any]:
    """A kernel that refuses devices and queues of these kinds."""

    class Calls:
        def link(self, command: str, **words: Any) -> None:
            self.tc(command, **words)

        def tc(self, command: str, **given: Any) -> None:
            if given.get("kind") in words:
                raise NetworkError(f"a change of the network was refused: {given['kind']}")

        def link_lookup(self, ifname: str) -> list[int]:
            return [1]

    return lambda namespace=None: nullcontext(Calls())


def test_a_machine_with_everything_can_do_both() -> None:
    assert ["", ""] == [capabilities.why_not(kind) for kind in (BANDWIDTH, DELAY)]
    assert capabilities.has_netem()


def test_without_root_there_is_no_link_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 65534)

    assert capabilities.why_not(BANDWIDTH).startswith("link-bandwidth needs root")


def test_without_the_library_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iproute, "find_spec", lambda name: None)

    assert "link-delay needs pyroute2: pip install pyroute2" == capabilities.why_not(DELAY)


@pytest.mark.parametrize(
    ("lacks", "kind", "told"),
    [
        ("veth", BANDWIDTH, "needs veth and bridge devices of the kernel"),
        ("tbf", BANDWIDTH, "needs tbf (CONFIG_NET_SCH_TBF) of the kernel"),
        ("u32", BANDWIDTH, "needs htb and u32"),
        ("tbf", DELAY, ""),
        ("netem", BANDWIDTH, ""),
        ("netem", DELAY, ""),  # the user-space link takes over
    ],
)
def test_each_part_of_the_kernel_is_missed_by_who_needs_it(
    monkeypatch: pytest.MonkeyPatch, lacks: str, kind: FaultKind, told: str
) -> None:
    monkeypatch.setattr(iproute, "kernel", without(lacks))

    assert told in capabilities.why_not(kind)
    assert bool(told) == bool(capabilities.why_not(kind))


def test_without_netem_and_tun_there_is_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(iproute, "kernel", without("netem"))
    monkeypatch.setattr(capabilities, "probe_device", refuse)

    assert "needs netem (CONFIG_NET_SCH_NETEM) or /dev/net/tun" in capabilities.why_not(DELAY)
    assert "" == capabilities.why_not(BANDWIDTH)


def test_a_container_that_may_make_no_namespace_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> _Nothing:
        raise PermissionError(1, "unshare: Operation not permitted")

    monkeypatch.setattr(netns, "fresh", refuse)

    assert "this process may not make one" in capabilities.why_not(BANDWIDTH)
