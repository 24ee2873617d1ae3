"""How fast a collective was: algorithm and bus bandwidth from its size, its ranks and its time.

Formulas and names after nccl-tests (doc/PERFORMANCE.md); NCCL Inspector uses the same. The bus
bandwidth compares with what the hardware can do, whatever the operation and the number of ranks.
"""

OPERATIONS: dict[str, str] = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AlltoAll": "all_to_all",
    "AllToAll": "all_to_all",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "Send": "send",
    "Recv": "recv",
}
"""Our word for each of NCCL's."""

_GATHERED = frozenset({"all_gather", "reduce_scatter"})
_TIMES_SENT = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
"""How often each part has to reach all other ranks; what is absent goes over the bus once."""


def whole_bytes(op: str, rank_bytes: int, ranks: int) -> int:
    """S of the formulas: of all_gather and reduce_scatter the whole array, `ranks` times a part.

    Args:
        op: A word of OPERATIONS.
        rank_bytes: Count times size of the type, as one rank passes them to NCCL.
        ranks: Size of the communicator.
    """
    return rank_bytes * ranks if op in _GATHERED else rank_bytes


def algorithm_bandwidth(op: str, rank_bytes: int, ranks: int, seconds: float) -> float:
    """S / t in bytes per second; arguments as `whole_bytes`, and a time above 0."""
    return whole_bytes(op, rank_bytes, ranks) / seconds


def bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth; 0 where a communicator has one rank."""
    times = _TIMES_SENT.get(op)
    return 1.0 if times is None else times * (ranks - 1) / ranks


def bus_bandwidth(op: str, rank_bytes: int, ranks: int, seconds: float) -> float:
    """Algorithm bandwidth times the factor, bytes per second; arguments as there."""
    return algorithm_bandwidth(op, rank_bytes, ranks, seconds) * bus_factor(op, ranks)
