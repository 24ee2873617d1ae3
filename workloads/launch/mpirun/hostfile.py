"""The hosts of an mpirun: read as Open MPI or MPICH writes them, written for whichever runs.

Syntax: `host [slots=N] [max_slots=N]` (Open MPI, docs.open-mpi.org, "hostfile") or `host[:N]`
(MPICH, github.com/pmodels/mpich, doc/wiki/how_to/Using_the_Hydra_Process_Manager.md); `#` begins
a comment.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(?P<slots>\d+))?")
_SETTING = re.compile(r"(?P<name>slots|max_slots|max-slots)=(?P<value>\d+)")


class HostfileError(ValueError):
    """A host file cannot be read or does not fit the run; the message says where."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host.

    Attributes:
        slots: Ranks that it takes; None = nobody said.
        line: Where it stands in the file, from 1.
    """

    name: str
    slots: int | None
    line: int


def read(path: Path) -> tuple[Host, ...]:
    """The hosts of a file, in its order.

    Raises:
        HostfileError: There is none, a line does not parse, or a host stands there twice.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HostfileError(f"the host file {path} cannot be read: {why}") from None
    hosts: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        host = _host(path, number, words)
        if host.name in hosts:
            raise HostfileError(
                f"{path} line {number}: host {host.name} is in line {hosts[host.name].line}"
                " already; name each host once, with slots=N"
            )
        hosts[host.name] = host
    if not hosts:
        raise HostfileError(f"the host file {path} names no host; give one a line")
    return tuple(hosts.values())


def require(hosts: tuple[Host, ...], path: Path, nodes: int, ranks_per_node: int) -> None:
    """Whether a run fits onto the hosts: one host a node, a slot a rank.

    Raises:
        HostfileError: With both numbers.
    """
    if len(hosts) != nodes:
        few = "too few" if len(hosts) < nodes else "too many"
        raise HostfileError(
            f"{path} names {len(hosts)} host{'s' if len(hosts) > 1 else ''}, {few} for --nodes"
            f" {nodes}; each node is a host of its own"
        )
    for host in hosts:
        if host.slots is not None and host.slots < ranks_per_node:
            raise HostfileError(
                f"{path} line {host.line}: host {host.name} has {host.slots} slots, too few for"
                f" --ranks-per-node {ranks_per_node}"
            )


def _host(path: Path, number: int, words: list[str]) -> Host:
    match = _NAME.fullmatch(words[0])
    if match is None:
        raise HostfileError(
            f"{path} line {number}: {words[0]!r} is no host; write `host slots=N` or `host:N`"
        )
    slots = [] if match["slots"] is None else [int(match["slots"])]
    for word in words[1:]:
        setting = _SETTING.fullmatch(word)
        if setting is None:
            raise HostfileError(
                f"{path} line {number}: {word!r} is unknown; write `host slots=N` or `host:N`"
            )
        slots.append(int(setting["value"]))
    if 0 in slots:
        raise HostfileError(f"{path} line {number}: host {match['name']} has no slots")
    return Host(match["name"], min(slots, default=None), number)
