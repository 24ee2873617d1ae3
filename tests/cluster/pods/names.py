"""A name server for one cluster: `names.py ADDRESS API CA TOKEN_FILE`, since Debian has no CoreDNS.

A records only: of Services, and of pods by their host name behind a headless one.
https://github.com/kubernetes/dns/blob/master/docs/specification.md
"""

import json
import socket
import ssl
import struct
import sys
import urllib.request
from pathlib import Path
from typing import Any

NO_SUCH_NAME, A_RECORD, SECONDS = 3, 1, 1


class Cluster:
    """What the API says."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        self._url, self._token = url, token
        self._context = ssl.create_default_context(cafile=authority)

    def read(self, path: str) -> dict[str, Any] | None:
        """None where there is no such thing."""
        request = urllib.request.Request(
            self._url + path, headers={"Authorization": f"Bearer {self._token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=5, context=self._context) as answer:
                return dict(json.load(answer))
        except OSError:
            return None

    def addresses(self, name: str) -> list[str] | None:
        """Of a name below cluster.local; None where there is no such name."""
        labels = name.lower().rstrip(".").split(".")
        if labels[-3:] != ["svc", "cluster", "local"] or len(labels) not in (5, 6):
            return None
        *pod, service, namespace = labels[:-3]
        found = self.read(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        address = found["spec"].get("clusterIP", "None")
        if not pod and address != "None":
            return [address]
        behind = self.read(f"/api/v1/namespaces/{namespace}/endpoints/{service}") or {}
        states = ["addresses"]
        if found["spec"].get("publishNotReadyAddresses"):
            states.append("notReadyAddresses")
        known = [
            one["ip"]
            for subset in behind.get("subsets") or ()
            for state in states
            for one in subset.get(state) or ()
            if not pod or one.get("hostname") == pod[0]
        ]
        return known or (None if pod else [])


def answer(packet: bytes, cluster: Cluster) -> bytes:
    """To one question; RFC 1035, section 4."""
    at, labels = 12, []
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode("ascii", "replace"))
        at += packet[at] + 1
    (kind,) = struct.unpack(">H", packet[at + 1 : at + 3])
    found = cluster.addresses(".".join(labels))
    records = (found or []) if kind == A_RECORD else []
    flags = 0x8580 | (NO_SUCH_NAME if found is None else 0)
    told = packet[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + packet[12 : at + 5]
    for address in records:
        told += struct.pack(">HHHIH", 0xC00C, A_RECORD, 1, SECONDS, 4) + socket.inet_aton(address)
    return told


def main(address: str, url: str, authority: str, token: str) -> None:
    """Answer until the end."""
    cluster = Cluster(url, authority, Path(token).read_text().strip())
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    while True:
        packet, whence = server.recvfrom(2048)
        try:
            server.sendto(answer(packet, cluster), whence)
        except (IndexError, struct.error, OSError) as error:
            sys.stderr.write(f"{whence}: {error}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
