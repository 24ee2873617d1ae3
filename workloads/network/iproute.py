"""The kernel's links, addresses, routes and queues, by pyroute2 (rtnetlink(7))."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from ipaddress import IPv4Network
from socket import AF_INET
from typing import TYPE_CHECKING, Any, cast

from lockstep.workloads.network import netns

if TYPE_CHECKING:
    from pyroute2 import IPRoute

Queueing = tuple[str, dict[str, Any]]
"""A command and the words of IPRoute.tc, but for the device."""


class NetworkError(OSError):
    """The emulated network cannot be made or changed; the message says why."""


class _Calls:
    """pyroute2's calls, made in a thread of their own.

    Each runs an event loop, which asyncio refuses a thread that has one running, as those of a
    notebook do.
    """

    def __init__(self, thread: Executor, calls: "IPRoute") -> None:
        self._thread, self._calls = thread, calls

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._calls, name)
        return lambda *given, **words: self._thread.submit(call, *given, **words).result()


@contextmanager
def kernel(namespace: str | None = None) -> Iterator["IPRoute"]:
    """pyroute2's calls in a namespace, or in the present one, for a block.

    Raises:
        NetworkError: One was refused.
    """
    # Here: to import it takes a fifth of a second, and few runs have a network of their own.
    from pyroute2 import IPRoute, NetlinkError

    def opened() -> "IPRoute":
        with nullcontext() if namespace is None else netns.inside(namespace):
            return IPRoute()

    try:
        with ThreadPoolExecutor(1) as thread:
            calls = thread.submit(opened).result()
            try:
                yield cast("IPRoute", _Calls(thread, calls))
            finally:
                thread.submit(calls.close).result()
    except NetlinkError as error:
        raise NetworkError(f"a change of the network was refused: {error.args[1]}") from error


def set_link(calls: "IPRoute", name: str, address: str = "", **words: Any) -> None:
    """Give a device, of which the name is known, other settings, and perhaps an address.

    Raises:
        NetworkError: There is no such device.
    """
    index = _index(calls, name)
    if address:
        calls.addr("add", index=index, address=address)
    calls.link("set", index=index, **words)


def shape(device: str, requests: Sequence[Queueing], namespace: str | None = None) -> None:
    """Do what links.py asks of a device in a namespace, or in the present one.

    Raises:
        NetworkError: Something was refused, or there is no such device.
    """
    with kernel(namespace) as calls:
        index = _index(calls, device)
        for command, words in requests:
            calls.tc(command, index=index, **words)


def own_networks() -> list[IPv4Network]:
    """Every IPv4 network that this machine routes or has an address in."""
    with kernel() as calls:
        places = [
            (route.get("dst"), route["dst_len"]) for route in calls.get_routes(family=AF_INET)
        ]
        places += [
            (address.get("local") or address.get("address"), address["prefixlen"])
            for address in calls.get_addr(family=AF_INET)
        ]
    return [IPv4Network(network, strict=False) for network in places if network[0] is not None]


def why_not() -> str:
    """Empty if the library is there, else what to install."""
    return "" if find_spec("pyroute2") else "needs pyroute2: pip install pyroute2"


def _index(calls: "IPRoute", name: str) -> int:
    indices = calls.link_lookup(ifname=name)
    if not indices:
        raise NetworkError(f"a change of the network was refused: there is no device {name}")
    return int(indices[0])
