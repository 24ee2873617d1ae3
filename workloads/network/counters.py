"""What the kernel counts of a node's network, and how long a packet takes there and back."""

import os
import re
import socket
from ipaddress import IPv4Address
from statistics import median
from time import monotonic

from workloads.network import netns
from workloads.network.names import FABRIC

CLOSED_PORT = 9
"""Discard (RFC 863): nobody listens in our namespaces, so the peer's kernel refuses at once."""
PROBES = 5
PROBE_SECONDS = 1.0

_TRAFFIC = re.compile(rf"^\s*{FABRIC}:\s*(\d+)(?:\s+\d+){{7}}\s+(\d+)\s", re.MULTILINE)
_TCP = re.compile(r"^Tcp: (.+)\nTcp: (.+)$", re.MULTILINE)


class NodeCounters:
    """Counters of one node's namespace, held open."""

    def __init__(self, namespace: str) -> None:
        # An open file of /proc/net tells of the namespace that it was opened in.
        with netns.inside(namespace):
            self._devices = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
            self._protocols = os.open("/proc/thread-self/net/snmp", os.O_RDONLY | os.O_CLOEXEC)

    def bits(self) -> int:
        """What passed through the node's `eth0` so far, in the direction of more."""
        found = _TRAFFIC.search(os.pread(self._devices, 16384, 0).decode())
        return max(int(found[1]), int(found[2])) * 8 if found else 0

    def retransmitted(self) -> int:
        """TCP segments that were sent again so far (RFC 4022, tcpRetransSegs)."""
        found = _TCP.search(os.pread(self._protocols, 16384, 0).decode())
        if found is None:
            return 0
        return int(dict(zip(found[1].split(), found[2].split(), strict=True))["RetransSegs"])

    def close(self) -> None:
        """Close the files."""
        os.close(self._devices)
        os.close(self._protocols)


def round_trip(namespace: str, address: IPv4Address) -> float | None:
    """Median seconds from a node to an address and back; None where nothing came back.

    A connection to a closed port is refused after one round trip: that needs neither a server nor
    `ping`.
    """
    seconds = []
    for _ in range(PROBES):
        with netns.inside(namespace):
            probe = socket.socket()
        with probe:
            probe.settimeout(PROBE_SECONDS)
            began = monotonic()
            try:
                probe.connect((str(address), CLOSED_PORT))
            except ConnectionRefusedError:
                seconds.append(monotonic() - began)
            except OSError:  # nothing in time, or no way there
                continue
    return median(seconds) if seconds else None
