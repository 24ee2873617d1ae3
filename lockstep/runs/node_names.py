"""What the hosts of a host file are called as nodes: as the collectors that run on them say.

In pods a host file has names of pods, and who is paged looks for a node. The launcher of an MPIJob
sets VARIABLE; a collector in a pod is told its node's name (`collector.node_name`) and shows it.
"""

import re
import time
from collections.abc import Mapping

from lockstep.collector.contract.metrics import NODE_INFO

VARIABLE = "LOCKSTEP_NODE_NAMES"
BY_COLLECTORS = "collectors"
SECONDS = 30.0
"""Pods are ready as soon as sshd answers; their collectors import a second or two longer."""
_INFO = re.compile(
    rf'^{NODE_INFO.name}\{{[^}}\n]*hostname="([A-Za-z0-9._-]{{1,253}})"'.encode(), re.MULTILINE
)


def ask(targets: Mapping[str, str], seconds: float = SECONDS) -> dict[str, str]:
    """Host -> name of its node, of those whose collector answered in time.

    Args:
        targets: Host -> "http://host:port" of its collector.
    """
    from lockstep.collector.recorder.recorder import FetchError, Target

    found: dict[str, str] = {}
    end = time.monotonic() + seconds
    while len(found) < len(targets) and time.monotonic() < end:
        for host in targets.keys() - found.keys():
            target = Target(targets[host])
            try:
                match = _INFO.search(target.get("/metrics", 2.0) or b"")
            except FetchError:
                match = None
            finally:
                target.close()
            if match is not None:
                found[host] = match[1].decode()
        if len(found) < len(targets):
            time.sleep(0.5)
    return found


def names(hosts: tuple[str, ...], found: Mapping[str, str]) -> tuple[str, ...]:
    """Of all hosts in their order; the hosts' own where two would be one, or one is not known.

    Half of them under other names would make two kinds of names of one run.
    """
    called = tuple(found.get(host, "") for host in hosts)
    return called if all(called) and len(set(called)) == len(hosts) else hosts
