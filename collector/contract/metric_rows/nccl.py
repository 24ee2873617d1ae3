"""What the page says about NCCL: RAS and the flight recorder. One row a metric."""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE

# RAS: asked by the collector of the node that holds rank 0 of the run.
_COMMUNICATOR = ("run", "group")

NCCL_RAS_UP = Metric(
    "lockstep_nccl_ras_up", _G, ("endpoint",),
    "1 if NCCL RAS answered the last question; absent where nothing listens and no rank says so.",
    within=ranges.FLAG,
)  # fmt: skip
NCCL_RAS_AGE = Metric(
    "lockstep_nccl_ras_age_seconds", _G, ("run", "endpoint"),
    "Age of the RAS document behind the series of this run; asked every 10 s.",
)  # fmt: skip
NCCL_RAS_COLLECTION = Metric(
    "lockstep_nccl_ras_collection_seconds", _G, ("run", "endpoint"),
    "Time in which RAS gathered the state of all ranks.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RAS_TIMEOUTS = Metric(
    "lockstep_nccl_ras_timeouts", _G, ("run", "endpoint"),
    "Ranks' processes that RAS waited for in vain.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_COMMUNICATORS = Metric(
    "lockstep_nccl_communicators", _G, ("run", "status", "health"),
    "Communicators by status (init running finalize abort nocomm) and health (ok mismatch"
    " incomplete error).",
)  # fmt: skip
NCCL_COMMUNICATOR_SIZE = Metric(
    "lockstep_nccl_communicator_size", _G, _COMMUNICATOR, "Ranks of the communicator.",
    unshown=Unshown.STANDING,
)  # fmt: skip
NCCL_COMMUNICATOR_MISSING = Metric(
    "lockstep_nccl_communicator_missing_ranks", _G, _COMMUNICATOR,
    "Ranks of the communicator that RAS has no answer from.",
)  # fmt: skip
NCCL_COMMUNICATOR_STUCK = Metric(
    "lockstep_nccl_communicator_stuck", _G, _COMMUNICATOR,
    "1 if ranks have launched different numbers of collectives and none of them launched one"
    " between the last three polls (20 s); a mismatch alone is normal.",
    within=ranges.FLAG,
)  # fmt: skip
NCCL_COMMUNICATOR_LAUNCHED = Metric(
    "lockstep_nccl_communicator_collectives_launched", _G, (*_COMMUNICATOR, "op", "bound"),
    "Collectives launched by the rank that launched fewest (min) and most (max).",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RANK_LAUNCHED = Metric(
    "lockstep_nccl_rank_collectives_launched_total", _C, (*_COMMUNICATOR, "rank", "op"),
    "Collectives the rank launched; ranks of this node and outliers, at most 64 ranks.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RANK_LAG = Metric(
    "lockstep_nccl_rank_collective_lag", _G, (*_COMMUNICATOR, "rank", "op"),
    "Collectives by which the rank is behind the first one; ranks as in the series of launches.",
)  # fmt: skip
NCCL_RANK_STATE = Metric(
    "lockstep_nccl_rank_state", _G, (*_COMMUNICATOR, "rank", "state"),
    "1 for each state that holds: initializing async_error abort destroy finalize missing"
    " unresponsive dead; a rank without one is well.",
    within=ranges.FLAG,
)  # fmt: skip
NCCL_PEER_EVENTS = Metric(
    "lockstep_nccl_peer_events_total", _C, ("run", "event"),
    "Events of RAS' MONITOR stream (NCCL 2.29), as peer_dead.",
)  # fmt: skip

# The flight recorder: dumps of this node's ranks.
_FR = ("run", "group", "rank")

NCCL_FR_ENQUEUED = Metric(
    "lockstep_nccl_fr_last_enqueued_collective", _G, _FR,
    "Sequence number of the last collective the rank enqueued, when it wrote its dump.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_FR_STARTED = Metric(
    "lockstep_nccl_fr_last_started_collective", _G, _FR,
    "Sequence number of the last collective that started; absent on gloo, which does not report"
    " it.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_FR_COMPLETED = Metric(
    "lockstep_nccl_fr_last_completed_collective", _G, _FR,
    "Sequence number of the last collective that completed, when the dump was written.",
)  # fmt: skip
NCCL_FR_STUCK = Metric(
    "lockstep_nccl_fr_stuck_seconds", _G, (*_FR, "op"),
    "How long the oldest collective that had not completed was open when the dump was written.",
)  # fmt: skip
NCCL_FR_MISSING = Metric(
    "lockstep_nccl_fr_missing_from_collective", _G, _FR,
    "Sequence number of the collective that others of this node are in and this rank is not.",
)  # fmt: skip
NCCL_FR_DUMP_AGE = Metric(
    "lockstep_nccl_fr_dump_age_seconds", _G, ("run", "rank"), "Age of the rank's dump.",
    unshown=Unshown.PART,
)  # fmt: skip

# Inspector: the files of this node's ranks, added up over them.
_COLLECTIVE = ("run", "group", "op")
_SIZED = (*_COLLECTIVE, "size_bucket")

COLLECTIVE_BOUNDS = (
    1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets of durations, seconds."""
SIZE_BOUNDS = (1 << 16, 1 << 20, 1 << 24, 1 << 28, 1 << 32)
"""Where one range of sizes ends and the next begins, bytes."""
SIZE_BUCKETS = ("<64KiB", "64KiB-1MiB", "1MiB-16MiB", "16MiB-256MiB", "256MiB-4GiB", ">=4GiB")
"""Words for the ranges of sizes."""

NCCL_DURATION = Metric(
    "lockstep_nccl_collective_duration_seconds", Kind.HISTOGRAM, _COLLECTIVE,
    "Time in the operation by NCCL Inspector, over the ranks of this node. It includes waiting for"
    " peers: the rank that comes late shows the SHORTEST time, its victims the longest.",
    COLLECTIVE_BOUNDS,
)  # fmt: skip
NCCL_COLLECTIVES = Metric(
    "lockstep_nccl_collectives_total", _C, _SIZED,
    "Operations by NCCL Inspector, each once a rank of this node; group = communicator's name.",
)  # fmt: skip
NCCL_BYTES = Metric(
    "lockstep_nccl_collective_bytes_total", _C, _SIZED,
    "Sizes of these operations; of all_gather and reduce_scatter the whole array.",
)  # fmt: skip
NCCL_BUS_BANDWIDTH = Metric(
    "lockstep_nccl_collective_bus_bandwidth_bytes_per_second", _G, _SIZED,
    "Geometric mean over the operations read in the last 15 s, computed from size, ranks and time;"
    " comparable with what the hardware can do.",
)  # fmt: skip
NCCL_ALGORITHM_BANDWIDTH = Metric(
    "lockstep_nccl_collective_algorithm_bandwidth_bytes_per_second", _G, _SIZED,
    "Size over time, mean as of the bus bandwidth.",
    unshown=Unshown.PART,
)  # fmt: skip
_RANK = ("run", "group", "communicator", "rank")
NCCL_INSPECTOR_RANKS = Metric(
    "lockstep_nccl_inspector_ranks", _G, ("run", "group", "communicator"),
    "Ranks of a communicator that a rank of this node reported by NCCL Inspector; communicator ="
    " its id, another one at every start.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RANK_COLLECTIVES = Metric(
    "lockstep_nccl_rank_collectives_total", _C, _RANK,
    "Collectives of a rank of this node by NCCL Inspector; rank = its number in the communicator.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RANK_SECONDS = Metric(
    "lockstep_nccl_rank_collective_seconds_total", _C, _RANK,
    "Time in these collectives, waiting for peers included: the late rank has the least of its"
    " communicator (recorded as lockstep:nccl_rank_wait:rate1m).",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_RANK_WAIT = Metric(
    "lockstep_nccl_rank_wait_seconds_total", _C, _RANK,
    "Its time in these collectives less the shortest of the same collective, where all ranks of the"
    " communicator are on this node; absent elsewhere.",
    unshown=Unshown.PART,
)  # fmt: skip
NCCL_SEQUENCE_GAPS = Metric(
    "lockstep_nccl_collective_sequence_gaps_total", _C, (),
    "Collectives that NCCL numbered and Inspector did not write: its ring overflowed, or they were"
    " below its minimum size.",
)  # fmt: skip
