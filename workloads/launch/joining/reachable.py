"""An address of this host that others can reach, and the network interface behind an address."""

import array
import contextlib
import fcntl
import ipaddress
import random
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_SIOCGIFCONF = 0x8912
_INTERFACE_REQUEST = struct.Struct("16s24s")  # struct ifreq of netdevice(7) on 64 bits
_SOMEWHERE = "192.0.2.1"
"""An address of documentation (RFC 5737): connecting a datagram socket to it sends nothing, and
finds the interface of the default route."""


_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 16384
"""Few well-known services listen between this port and those of outgoing connections."""
_ATTEMPTS = 64


def free_port() -> int:
    """A TCP port that nobody listened on a moment ago, and that no outgoing connection is given.

    Between this answer and the listening lie seconds in which programs start: a port of the
    kernel's outgoing range (ip_local_port_range of ip-sysctl) may then be another's.
    """
    try:
        first = int(_OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 0
    candidates = range(_LOWEST, first)
    # Not the seeded generator: ranks and tests that seed it alike would choose alike.
    dice = random.SystemRandom()
    for port in dice.sample(candidates, min(_ATTEMPTS, len(candidates))):
        with contextlib.suppress(OSError):
            return _bound(port)
    return _bound(0)


def _bound(port: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("", port))
        return int(listener.getsockname()[1])


def routable(peers: Iterable[str], own: str) -> str | None:
    """An address of this host that its peers can reach, as far as this host can know.

    The one that packets to a peer leave from; else what our own name means to the resolver; else
    the one of the default route. Never a loopback address, which is what many an /etc/hosts says
    of its own host.
    """
    for target in (*peers, own, _SOMEWHERE):
        address = towards(target)
        if address is not None and not ipaddress.ip_address(address).is_loopback:
            return address
    return None


def towards(host: str) -> str | None:
    """The IPv4 address of ours that packets to a host leave from; None where there is no way."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # discard (RFC 863); connecting sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return None


def interface_of(address: str) -> str | None:
    """The network interface that has an IPv4 address; None where none has."""
    if ipaddress.ip_address(address).is_loopback:
        return "lo"
    return _addresses().get(address)


def _addresses() -> dict[str, str]:
    """Interface by IPv4 address, from the kernel (netdevice(7), SIOCGIFCONF)."""
    room = array.array("B", bytes(_INTERFACE_REQUEST.size * 256))
    pointer, _ = room.buffer_info()
    request = bytearray(struct.pack("iP", len(room), pointer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        fcntl.ioctl(asker, _SIOCGIFCONF, request)
    (length,) = struct.unpack_from("i", request)
    addresses = {}
    for name, data in _INTERFACE_REQUEST.iter_unpack(room.tobytes()[:length]):
        # A sockaddr_in: two bytes of family, two of port, four of address.
        addresses[socket.inet_ntoa(data[4:8])] = name.rstrip(b"\0").decode().partition(":")[0]
    return addresses
