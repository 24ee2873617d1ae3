"""Names of this machine, of those that it knows, and of the people on it."""

import os
import pwd
import socket
from collections.abc import Mapping
from pathlib import Path

HUMANS = range(1000, 60_000)
"""User ids of people (login.defs(5), UID_MIN and UID_MAX)."""
MOST_NAMES = 5000
_HOST_VARIABLES = ("HOSTNAME", "NODE_NAME", "LOCKSTEP_NODE", "SLURMD_NODENAME")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "SLURM_JOB_USER")
_LOOPBACK = ("localhost", "ip6-", "broadcasthost")


def hosts(environment: Mapping[str, str], etc: Path = Path("/etc")) -> set[str]:
    """Host names; names of the loopback are nobody's."""
    found = {socket.gethostname(), os.uname().nodename}
    found |= {environment.get(name, "") for name in _HOST_VARIABLES}
    for line in _lines(etc / "hosts"):
        found.update(line.partition("#")[0].split()[1:])
    return {name for name in found if name and not name.startswith(_LOOPBACK)}


def users(environment: Mapping[str, str]) -> set[str]:
    """Names of people's accounts."""
    found = {environment.get(name, "") for name in _USER_VARIABLES}
    found.add(Path(environment.get("HOME", "")).name)
    for index, entry in enumerate(pwd.getpwall()):
        if entry.pw_uid in HUMANS and index < MOST_NAMES:
            found.add(entry.pw_name)
    return {name for name in found if name}


def _lines(path: Path) -> list[str]:
    try:
        with path.open(errors="replace") as file:
            return file.read(1 << 20).splitlines()[:MOST_NAMES]
    except OSError:
        return []
