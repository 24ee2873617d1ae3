"""What an external program finds in its environment: torchrun's variables, and ours; pure."""

from collections.abc import Mapping
from pathlib import Path

from workloads.spec import Layout

HOOK = Path(__file__).parents[2] / "exec" / "hook"
"""The folder whose sitecustomize.py Python imports by itself."""


def environment_of(
    base: Mapping[str, str], *, run: str, layout: Layout, rank: int, workspace: Path, port: int
) -> dict[str, str]:
    """The environment of one rank.

    The names are torchrun's (torch/distributed/run.py). PYTHONPATH gets our folder in front.
    What decides only speed or output is left as the user has it.

    Args:
        base: The user's own environment.
        port: Where rank 0 listens.
    """
    own = {
        "RANK": str(rank),
        "WORLD_SIZE": str(layout.world),
        "LOCAL_RANK": str(layout.local_rank(rank)),
        "LOCAL_WORLD_SIZE": str(layout.ranks_per_node),
        "GROUP_RANK": str(rank // layout.ranks_per_node),
        "GROUP_WORLD_SIZE": str(layout.nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(layout.world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # By this one Lightning knows that the ranks are started already.
        "TORCHELASTIC_RUN_ID": run,
        "LOCKSTEP_DIR": str(workspace / layout.node(rank)),
        "LOCKSTEP_RUN": run,
        "LOCKSTEP_NODE": layout.node(rank),
        "PYTHONPATH": ":".join(filter(None, (str(HOOK), base.get("PYTHONPATH", "")))),
    }
    defaults = {
        "OMP_NUM_THREADS": "1",
        # gloo listens on this interface only: nothing is reachable from outside.
        "GLOO_SOCKET_IFNAME": "lo",
        # Lines reach the log when they are written: their times are the steps'.
        "PYTHONUNBUFFERED": "1",
    }
    return {**defaults, **base, **own}
