"""A rank of a real program on gloo in which one rank does something wrong; run by the test.

    python gloo_program.py RANK WORLD TP FOLDER FAULT CULPRIT

Each rank leaves what torch's flight recorder holds whenever `ask` in the folder is newer.
"""

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

BAD_STEP = 6


def main() -> None:
    rank, world, tp = (int(each) for each in sys.argv[1:4])
    folder, fault, culprit = Path(sys.argv[4]), sys.argv[5], int(sys.argv[6])
    threading.Thread(target=answering, args=(folder, rank), daemon=True).start()
    store = dist.FileStore(str(folder / "store"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    groups = {}
    for first in range(0, world, tp):
        ranks = list(range(first, first + tp))
        groups["tp", first // tp] = dist.new_group(ranks, group_desc="tp")
    for column in range(tp):
        groups["dp", column] = dist.new_group(list(range(column, world, tp)), group_desc="dp")
    mine_tp, mine_dp = groups["tp", rank // tp], groups["dp", rank % tp]
    for step in range(1_000_000):
        bad = rank == culprit and step == BAD_STEP
        if bad:
            wrong(fault)
        if not (bad and fault == "skipped"):
            dist.all_reduce(torch.ones(3), group=mine_tp)
        dist.all_gather_into_tensor(torch.ones(2 * tp), torch.ones(2), group=mine_tp)
        shape = 7 if bad and fault == "mismatched-shape" else 5
        dist.all_reduce(torch.ones(shape), group=mine_dp)
        dist.all_reduce(torch.ones(1))
        time.sleep(0.01)


def wrong(fault: str) -> None:
    match fault:
        case "stopped":
            os.kill(os.getpid(), 19)
        case "asleep":
            time.sleep(1000)
        case "dead":
            os._exit(7)
        case _:
            pass


def answering(folder: Path, rank: int) -> None:
    answered = 0
    while True:
        time.sleep(0.05)
        try:
            asked = (folder / "ask").stat().st_mtime_ns
        except OSError:
            continue
        if asked != answered:
            answered = asked
            hidden = folder / f".{rank}"
            hidden.write_bytes(_distributed_c10d._dump_fr_trace_json(True, False))
            hidden.replace(folder / f"dump_{rank}")


if __name__ == "__main__":
    main()
