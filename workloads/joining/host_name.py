"""What a rank calls its host: a pod's host name is no node's, and Slurm has names of its own."""

import os
import socket
from collections.abc import Mapping

from lockstep.collector.contract.ring import RingName

NODE_VARIABLES = ("LOCKSTEP_NODE", "SLURMD_NODENAME")
"""Who sets one knows better: a pod's template by spec.nodeName, slurmd by its configuration."""


def host_name(environment: Mapping[str, str] = os.environ) -> str:
    """Name of the node, or else of the host, as a ring may tell it."""
    told = (environment.get(name, "") for name in NODE_VARIABLES)
    return RingName.mapped(next(filter(None, told), "") or socket.gethostname(), "node")
