"""How the model treats each type of operation (docs/method/what-if.md)."""

from collections.abc import Mapping

FORWARD, BACKWARD = "forward-compute", "backward-compute"
COMPUTE = (FORWARD, BACKWARD)

SENDS: Mapping[str, tuple[str, str, int]] = {
    "forward-send": (FORWARD, "forward-recv", 1),
    "backward-send": (BACKWARD, "backward-recv", -1),
}
"""Send -> the computation before it, what receives it, and how many stages away."""
RECEIVES: Mapping[str, str] = {"forward-recv": FORWARD, "backward-recv": BACKWARD}
"""Receive -> the computation after it."""
P2P = (*SENDS, *RECEIVES)

GATHER, SCATTER = "params-all-gather", "grads-reduce-scatter"
OVERLAPPED = "separate-grads-all-reduce"
"""Its presence means that gradient reduction overlaps the backward pass."""
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, GC, LOAD = "optimizer-clip-main-grad", "optimizer", "gc", "data-load"

OVER_REPLICAS = (GATHER, SCATTER, OVERLAPPED, CLIP)
"""All replicas leave these together."""
GROUPED = (*P2P, *OVER_REPLICAS, EMBEDDING)
"""Operations whose time is waiting for peers, then transfer; the others are local work."""

TAIL = (GC, LAYERNORM, EMBEDDING, SCATTER, OVERLAPPED, CLIP, OPTIMIZER)
"""The end of a step, in Megatron-LM's order."""
MODELLED = frozenset((*COMPUTE, *P2P, GATHER, LOAD, *TAIL))

MEAN_IDEAL = (*COMPUTE, OPTIMIZER, GC, LOAD)
"""Types whose published ideal is the mean; that of the others is the median."""

MERGED: Mapping[str, str] = {
    "forward-send": "forward-pp-comm",
    "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm",
    "backward-recv": "backward-pp-comm",
}
"""Types that count as one where S is taken apart by type."""
