"""Pages of made-up nodes, and looks at them."""

import math
from collections.abc import Mapping, Sequence

from lockstep.top.look import Answered, Look, Rates, by_name
from lockstep.top.pages import read

RUN = "gpt-1"


def page(
    node: int, own: Mapping[int, float], steps: float = 10.0, *, world: int = 8, known: float = 1.0,
    more: str = "",
) -> str:  # fmt: skip
    """As a collector's, after so many steps: rank -> own seconds a step; two ranks a node."""
    lines = [
        f'lockstep_node_info{{hostname="node-{node}",kernel="6",boot_id="b",emulated="false"}} 1',
        'lockstep_load_average{window="1m"} 1.5', "lockstep_host_cpus 8",
        "lockstep_host_memory_total_bytes 1000", "lockstep_host_memory_available_bytes 750",
        'lockstep_disk_bytes_total{device="sda",direction="read"} 12345',
    ]  # fmt: skip
    for rank, seconds in own.items():
        who = f'run="{RUN}",rank="{rank}"'
        gpu = f'gpu="{rank % 2}",uuid="GPU-{rank}"'
        layout = f'dp="{rank}",pp="0",tp="0",{gpu},node="node-{node}",pid="1"'
        lines += [
            f'lockstep_rank_info{{{who},attempt="0",world_size="{world}",{layout}}} 1',
            f"lockstep_rank_up{{{who}}} 1",
            f"lockstep_train_steps_total{{{who}}} {steps}",
            f"lockstep_train_known_steps_total{{{who}}} {steps * known}",
            f"lockstep_train_own_seconds_total{{{who}}} {steps * seconds}",
            f'lockstep_train_collective_seconds_total{{{who},group="dp"}} {steps * 0.1}',
            f"lockstep_train_heartbeat_age_seconds{{{who}}} 0.2",
            f"lockstep_train_progress_age_seconds{{{who}}} 0.1",
            f'lockstep_gpu_info{{{gpu},model="H100",simulated="true"}} 1',
            f"lockstep_gpu_up{{{gpu}}} 1",
            f"lockstep_gpu_utilization_ratio{{{gpu}}} 0.9",
            f'lockstep_gpu_clock_hertz{{{gpu},domain="sm"}} 1.98e9',
            f'lockstep_gpu_temperature_celsius{{{gpu},sensor="gpu"}} 65',
            f"lockstep_gpu_power_watts{{{gpu}}} 500",
        ]
    return "\n".join([*lines, more, ""])


def look(
    own: Sequence[float | None] = (0.05,) * 8, *, more: str = "", silent: Sequence[str] = (),
    **changed: object,
) -> Look:  # fmt: skip
    """Of four nodes with two ranks each; own seconds a step by rank, None = not known.

    Args:
        own: By rank.
        more: Further lines of node-0's page, in place of those of the same series.
        silent: Nodes that do not answer.
        changed: Fields of the Look.
    """
    rows = []
    nodes = range(math.ceil(len(own) / 2))
    for node in nodes:
        if f"node-{node}" in silent:
            continue
        mine = {rank: own[rank] or 0.0 for rank in (2 * node, 2 * node + 1) if rank < len(own)}
        instead = {line.rpartition(" ")[0] for line in more.splitlines()}
        lines = page(node, mine, world=len(own)).splitlines()
        text = "\n".join([one for one in lines if one.rpartition(" ")[0] not in instead]
                         + (more.splitlines() if node == 0 else []) + [""])  # fmt: skip
        rows += [(name, {"node": f"node-{node}", **labels}, value)
                 for name, labels, value in read(text.encode())]  # fmt: skip
    told = {
        (RUN, rank): Rates(seconds, 0.1, 0.4)
        for rank, seconds in enumerate(own)
        if f"node-{rank // 2}" not in silent
    }
    answered = [
        Answered(f"node-{node}", 30.0 if f"node-{node}" in silent else 0.0,
                 "it does not answer in time" if f"node-{node}" in silent else "")
        for node in nodes
    ]  # fmt: skip
    fields = {"source": "http://there", "at": 1_700_000_000.0, "span": 60.0, "nodes": answered,
              "gauges": by_name(rows), "rates": told, **changed}  # fmt: skip
    return Look(**fields)  # type: ignore[arg-type]
