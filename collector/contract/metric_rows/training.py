"""What the page says about ranks, from their rings: at most MAX_SERIES_PER_RANK series a rank."""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE
_RANK = ("run", "rank")

RINGS = Metric(
    "lockstep_rings", _G, ("state",),
    "Ring files on this node: read, or left out because there are more than may be read, with a"
    " fresh heartbeat (living_left_out) or without (quiet_left_out).",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
RANK_INFO = Metric(
    "lockstep_rank_info", _G,
    (*_RANK, "attempt", "local_rank", "world_size", "dp", "pp", "tp", "ep", "cp", "gpu", "uuid",
     "node", "pid", "steps_by"),
    "Topology of the rank; gpu and uuid are empty on CPU. steps_by: how steps of somebody else's"
    " program are known (sdk, optimizer or log); empty for a reference run.",
)  # fmt: skip
RANK_UP = Metric(
    "lockstep_rank_up", _G, _RANK,
    "1 if the rank's process lives, or, where it is not visible, its heartbeat is younger than 3 s;"
    " a gone rank keeps 0 for 600 s.",
    within=ranges.FLAG,
)  # fmt: skip
RANK_LAST_STATE = Metric(
    "lockstep_rank_last_state", _G, (*_RANK, "state"),
    "1 for what a gone rank said of itself last: starting, running, finished, peer_lost, failed or"
    " stopped; one that was running ended without a clean close, as by a signal, and one that was"
    " stopped was ended from outside, as with its pod.",
    unshown=Unshown.END_OF_RANK,
    within=ranges.FLAG,
)  # fmt: skip
RANK_EXCHANGE_INFO = Metric(
    "lockstep_rank_exchange_info", _G, (*_RANK, "groups", "peers", "only_averages"),
    "The exchanges of data of a torch program's rank in its steps: groups (hash of the members, and"
    " how many) by which 1 % of its bytes or more go, peers of its sends and receives, and whether"
    " it only averages gradients, beside barriers and all-reduces of at most 64 bytes. Absent where"
    " none was reported, or it has more than 8 groups or peers.",
    unshown=Unshown.IDENTITY,
    within=ranges.FLAG,
)  # fmt: skip
TRAIN_STEPS = Metric(
    "lockstep_train_steps_total", _C, _RANK,
    "Steps completed = number of the next step (a resumed run starts at the resumed step).",
)  # fmt: skip
TRAIN_PHASE = Metric(
    "lockstep_train_phase_seconds_total",
    _C,
    (*_RANK, "phase"),
    "Wall time by phase of the step; the phases add up to the whole step.",
)
TRAIN_OWN = Metric(
    "lockstep_train_own_seconds_total", _C, _RANK,
    "Wall time outside blocking collectives, of the steps where it is known: what the rank took"
    " itself.",
)  # fmt: skip
TRAIN_KNOWN_STEPS = Metric(
    "lockstep_train_known_steps_total", _C, _RANK,
    "Steps whose own time is known: every collective that the rank was in was timed. Own time says"
    " something only where this rose by as much as the steps.",
)  # fmt: skip
TRAIN_CPU = Metric(
    "lockstep_train_cpu_seconds_total", _C, _RANK, "CPU time of the training thread in steps.",
    unshown=Unshown.HOST_DETAIL,
)  # fmt: skip
TRAIN_COLLECTIVE = Metric(
    "lockstep_train_collective_seconds_total", _C, (*_RANK, "group"),
    "Time from arrival at collectives to their completion: waiting and transfer.",
)  # fmt: skip
TRAIN_COLLECTIVES = Metric(
    "lockstep_train_collectives_total", _C, (*_RANK, "group"), "Collectives completed."
)
TRAIN_ENQUEUED = Metric(
    "lockstep_train_enqueued_sequence", _G, (*_RANK, "group"),
    "Sequence number of the last collective the rank arrived at; counts from 1.",
)  # fmt: skip
TRAIN_COMPLETED = Metric(
    "lockstep_train_completed_sequence", _G, (*_RANK, "group"),
    "Sequence number of the last collective the rank completed.",
)  # fmt: skip
TRAIN_SAMPLES = Metric("lockstep_train_samples_total", _C, _RANK, "Samples trained on.")
TRAIN_TOKENS = Metric("lockstep_train_tokens_total", _C, _RANK, "Tokens trained on.")
TRAIN_FLOPS = Metric(
    "lockstep_train_model_flops_total",
    _C,
    _RANK,
    "Model FLOPs by Megatron's formula.",
    within=ranges.FLOPS,
)
TRAIN_LOSS = Metric(
    "lockstep_train_loss", _G, _RANK, "Training loss of the last step, nats.", within=ranges.ANY
)
TRAIN_VALUE = Metric(
    "lockstep_train_value", _G, (*_RANK, "name"),
    "Last value of a number that the program logs itself (`recorder.log(name=value)`); at most 8"
    " names a rank, and as many as its other series leave room for.",
    unshown=Unshown.OWN_VALUE,
    within=ranges.ANY,
)  # fmt: skip
TRAIN_OPEN_OP_AGE = Metric(
    "lockstep_train_open_operation_age_seconds", _G, (*_RANK, "op", "group"),
    "Age of the collective the rank is inside now; absent when it is in none.",
)  # fmt: skip
TRAIN_HEARTBEAT_AGE = Metric(
    "lockstep_train_heartbeat_age_seconds", _G, _RANK,
    "Since the rank's helper thread last ran: over 3 s = the process is frozen.",
)  # fmt: skip
TRAIN_ROUND_TRIP = Metric(
    "lockstep_train_round_trip_seconds", _G, _RANK,
    "TCP round trip to the other hosts that the rank exchanges data with, the least of at least two"
    " (TCP_INFO); absent where none carries data, as over RDMA.",
)  # fmt: skip
TRAIN_PROGRESS_AGE = Metric(
    "lockstep_train_progress_age_seconds", _G, _RANK,
    "Since the training thread last began or ended anything: old with a fresh heartbeat = stuck.",
)  # fmt: skip
RANK_RUN_QUEUE = Metric(
    "lockstep_rank_run_queue_seconds_total", _C, _RANK,
    "Time the rank's main thread was ready to run and had no processor (/proc/PID/schedstat).",
)  # fmt: skip
RANK_THROTTLED = Metric(
    "lockstep_rank_cpu_throttled_seconds_total", _C, _RANK,
    "Time the rank's cgroup was held back by its CPU quota (cpu.stat).",
)  # fmt: skip

MAX_SERIES_PER_RANK = 45
"""Series of a rank with all six groups in use."""
RANK_GONE_SECONDS = 600.0
"""How long a rank that is gone keeps its last sequences on the page (docs/method/collecting.md)."""
