"""A synthetic fleet's collectives as NCCL Inspector would have written them.

Format: NVIDIA/nccl plugins/profiler/inspector/inspector_json.cc. Each rank and step has an exchange
in its tensor-parallel group, a receive of its pipeline, and an all-reduce of gradients; their
durations hold the waits of lockstep.evaluation.synth.times.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, SyntheticFleet
from lockstep.evaluation.synth.times import Times, times
from lockstep.evaluation.synth.untidy import clock_errors

TRANSFER = 200e-6
"""Seconds of an exchange inside a layer, or from stage to stage, when nobody waits."""
EPOCH_US = 1_760_000_000_000_000
FIRST_PID = 4001
BYTES = {"AllGather": 4 << 20, "Send": 8 << 20, "Recv": 8 << 20, "AllReduce": 64 << 20}
BUS = {"AllGather": lambda n: (n - 1) / n, "AllReduce": lambda n: 2 * (n - 1) / n}


def write_inspector(fleet: SyntheticFleet, folder: Path) -> None:
    """One file a rank, as `<host>-pid<pid>.log`."""
    made = times(fleet, np.random.default_rng(fleet.seed))
    dice = np.random.default_rng([fleet.seed, 22])
    ahead = clock_errors(fleet) if fleet.difficulties else np.zeros(fleet.nodes)
    ends = np.cumsum(made.wall)
    waits = _waits(fleet, made)
    for rank in range(fleet.world):
        node = rank // GPUS_PER_NODE
        lines = _lines(fleet, rank, waits, ends + ahead[node], dice)
        name = f"node-{node}-pid{FIRST_PID + rank}.log"
        (folder / name).write_text("".join(lines), encoding="ascii")


def _waits(fleet: SyntheticFleet, made: Times) -> dict[str, FloatGrid]:
    """(S, R) by group; what a group of replicas waits for other stages falls into the pipeline."""
    waits = dict(made.by_group)
    if "dp" in waits and "pp" in waits:
        rest = waits["dp"].reshape(len(made.wall), fleet.pp, fleet.dp, fleet.tp)
        common = rest.min(axis=2, keepdims=True)
        common = common - common.min(axis=(1, 3), keepdims=True)
        waits["dp"] = (rest - common).reshape(made.own.shape)
        waits["pp"] = waits["pp"] + np.broadcast_to(common, rest.shape).reshape(made.own.shape)
    return waits


def _lines(
    fleet: SyntheticFleet, rank: int, waits: dict[str, FloatGrid], ends: FloatGrid,
    dice: np.random.Generator,
) -> Iterator[str]:  # fmt: skip
    tp, dp = rank % fleet.tp, rank // fleet.tp % fleet.dp
    pp = rank // (fleet.tp * fleet.dp)
    node = rank // GPUS_PER_NODE
    behind = dice.exponential(300e-6, len(ends))  # until the dump thread comes by

    def line(
        kind: str, group: str, number: int, column: int, size: int, op: str, sequence: int,
        seconds: float, written: float, peer: str = "",
    ) -> str:  # fmt: skip
        micro = max(round(seconds * 1e6), 1)
        whole = BYTES[op] * (size if op == "AllGather" else 1)
        algorithm = whole / micro / 1e3
        bus = algorithm * (BUS[op](size) if op in BUS else 1.0)
        return (
            f'{{"header":{{"id":"0x{fleet.seed % (1 << 24):06x}{ord(group[0]):02x}{number:06x}",'
            f'"comm_name":"{group}","rank":{column},"n_ranks":{size},"nnodes":1}},'
            '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"",'
            '"rec_mechanism":"nccl_profiler_interface",'
            f'"dump_timestamp_us":{EPOCH_US + round(written * 1e6)},"hostname":"node-{node}",'
            f'"pid":{FIRST_PID + rank}}},"{kind}_perf":{{"{kind}":"{op}","{kind}_sn":{sequence},'
            f'{peer}"{kind}_msg_size_bytes":{BYTES[op]},"{kind}_exec_time_us":{micro},'
            f'"{kind}_timing_source":"kernel_gpu","{kind}_algobw_gbs":{algorithm:.6f},'
            f'"{kind}_busbw_gbs":{bus:.6f}}}}}\n'
        )

    # Each stage receives from the one before it, the first from the second, as in backward.
    source = pp - 1 if pp else 1
    targets = [one for one in (pp + 1, 0 if pp == 1 else -1) if 0 <= one < fleet.pp]
    transfers = 0
    for step, end in enumerate(ends + behind):
        if "tp" in waits and fleet.tp > 1:
            yield line("coll", "tp", rank // fleet.tp, tp, fleet.tp, "AllGather", step,
                       TRANSFER + waits["tp"][step, rank], end - 30e-6)  # fmt: skip
        if "pp" in waits and fleet.pp > 1:
            number = rank % (fleet.tp * fleet.dp)
            for op, peer in (("Recv", source), *(("Send", one) for one in targets)):
                transfers += 1
                waited = waits["pp"][step, rank] if op == "Recv" else 0.0
                yield line("p2p", "pp", number, pp, fleet.pp, op, transfers, TRANSFER + waited,
                           end - 20e-6, f'"p2p_peer":{peer},')  # fmt: skip
        if "dp" in waits and fleet.dp > 1:
            yield line("coll", "dp", pp * fleet.tp + tp, dp, fleet.dp, "AllReduce", step,
                       float(waits["dp"][step, rank]), end)  # fmt: skip
