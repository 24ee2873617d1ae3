"""Which requests are of this machine's own doing, and which a page of somebody else's sent.

Any page of the web that is open in a browser here may send requests to the loopback. It cannot
choose the headers `Host`, `Origin` and `Sec-Fetch-Site`, by which it is told apart: a name of its
own that leads to 127.0.0.1 (DNS rebinding) stands in `Host`, its address in `Origin`.
"""

import re
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus
from urllib.parse import urlsplit

from lockstep.collector.config import Address, is_loopback
from lockstep.watch.loop.server import Admission, Reply, text

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,255})(?::[0-9]{1,5})?", re.ASCII)
OWN_SITES = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of what a page of this server, or a person, asked for (W3C Fetch Metadata)."""
JSON = "application/json"


def host_check(listen: Address) -> Admission:
    """Lets in who names us rightly.

    Where only this machine reaches us we are called by one of its names. Elsewhere the names that
    lead to us are not ours to know.

    Args:
        listen: As it was configured.
    """
    own = f"[{listen.host}]" if ":" in listen.host else listen.host
    names = {*LOCAL_NAMES, own.lower()}

    def admit(method: str, headers: Message) -> Reply | None:
        hosts = headers.get_all("Host", [])
        if not hosts and method == "GET":
            return None  # a health check by HTTP/1.0: every browser names whom it asks
        if len(hosts) == 1 and _name(hosts[0]) in names:
            return None
        return text(
            HTTPStatus.MISDIRECTED_REQUEST, f"the Host must be one of {', '.join(sorted(names))}"
        )

    def single(_: str, headers: Message) -> Reply | None:
        if len(headers.get_all("Host", [])) < 2:
            return None
        return text(HTTPStatus.BAD_REQUEST, "there must be one Host")

    return admit if is_loopback(listen.host) else single


def refuse_cross_origin(headers: Message) -> tuple[HTTPStatus, str] | None:
    """Why a POST may be the doing of a page of others: status and sentence; None = it is not.

    JSON is what no page sends to others without asking them first.
    """
    hosts, origins = headers.get_all("Host", []), headers.get_all("Origin", [])
    sites = frozenset(headers.get_all("Sec-Fetch-Site", []))
    if not sites <= OWN_SITES or not all(_same(origin, hosts) for origin in origins):
        return HTTPStatus.FORBIDDEN, "a page of another origin sent this"
    kinds = headers.get_all("Content-Type", [])
    if [kind.partition(";")[0].strip().lower() for kind in kinds] != [JSON]:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type must be {JSON}"
    return None


def _name(host: str) -> str:
    """Of a Host header, without its port; empty where it is none."""
    found = HOST.fullmatch(host)
    return found[1].lower() if found else ""


def _same(origin: str, hosts: Sequence[str]) -> bool:
    """Whether an Origin is that of the Host: `null` is of nobody."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and list(hosts) == [parts.netloc]
