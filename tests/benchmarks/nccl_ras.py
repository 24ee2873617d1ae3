"""The cost of one answer of NCCL's RAS about 1,000 ranks, from its text to what is shown."""

import json
from statistics import median
from time import perf_counter, process_time

from lockstep.collector.sources.nccl.ras.communicators import pictured
from lockstep.collector.sources.nccl.ras.document import parse

RANKS, GPUS, ROUNDS = 1000, 8, 25
OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
GOALS = {"parse_1000_ranks_milliseconds": 50}


def main() -> dict[str, float]:
    """Milliseconds of CPU: median over rounds."""
    text = document()
    status = parse(text)
    before = [pictured(status, (), (), _on_the_first_node)]
    return {
        "document_megabytes": len(text) / 1e6,
        "parse_1000_ranks_milliseconds": 1e3 * _cost(lambda: parse(text)),
        "choose_1000_ranks_milliseconds": 1e3
        * _cost(lambda: pictured(status, before, (), _on_the_first_node)),
        "parse_wall_milliseconds": 1e3 * _cost(lambda: parse(text), perf_counter),
    }


def document() -> str:
    """One communicator of all ranks, laid out as RAS does, one rank in a hundred late."""
    ranks = [
        {
            "rank": rank,
            "host": f"172.16.{rank // GPUS // 250}.{rank // GPUS % 250 + 1}",
            "pid": 100_000 + rank,
            "cuda_dev": rank % GPUS,
            "nvml_dev": rank % GPUS,
            "status": {
                "init_state": 0, "async_error": 0, "finalize_called": False,
                "destroy_flag": False, "abort_flag": False,
            },
            "collective_counts": dict.fromkeys(OPERATIONS, 6650 - (rank % 100 == 7)),
        }
        for rank in range(RANKS)
    ]  # fmt: skip
    communicator = {
        "hash": "0xae94423cfbb2ef4a",
        "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
        "size": RANKS, "ranks_count": RANKS, "missing_ranks_count": 0,
        "ranks": ranks, "missing_ranks": [],
    }  # fmt: skip
    tree = {
        "nccl_version": "2.29.1", "communicators_count": 1, "communicators": [communicator],
        "ras": {"collection_time_sec": 0.25, "timeouts_count": 0},
    }  # fmt: skip
    return json.dumps(tree, indent=2)


def _cost(call: object, clock: object = process_time) -> float:
    assert callable(call)
    assert callable(clock)
    times = []
    for _ in range(ROUNDS):
        began = clock()
        call()
        times.append(clock() - began)
    return float(median(times))


def _on_the_first_node(host: str) -> bool:
    return host == "172.16.0.1"
