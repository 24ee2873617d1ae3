"""The run archive: its files, their columns, and the JSON of `GET /ops`.

`steps.parquet/`, `ops.parquet/` and `samples.parquet/` are folders of closed part files while a
run lasts (temporary name, then rename); readers accept a folder or one file.
"""

from dataclasses import dataclass

from lockstep.collector.contract.words import PHASES

SCHEMA_VERSION = 1

RUN_FILE = "run.json"
RANKS_FILE = "ranks.parquet"
SAMPLES_FILE = "samples.parquet"
STEPS_FILE = "steps.parquet"
OPS_FILE = "ops.parquet"
TRUTH_FILE = "truth.json"
RESULTS_FILE = "results.json"
VERDICT_FILE = "verdict.json"
REPORT_STEM = "report"
FINDING_FILE = "finding.json"
OPENED_FILE = "opened.json"
TRACE_FILE = "trace.perfetto.json.gz"
POSTED_FILE = "posted.jsonl"
CLUSTER_FILE = "cluster.json"
"""Where a run on a cluster was and when its pods began, in the folder of who submitted it."""
PART_SECONDS = 5.0
"""A writer closes one part file this often."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `dtype` in Arrow's words, `unit` in base units or empty.

    Attributes:
        added: Archives of earlier releases lack it; readers fill in nulls.
    """

    name: str
    dtype: str
    unit: str
    help: str
    added: bool = False


RANKS: tuple[Column, ...] = (
    Column("rank", "int32", "", "global rank"),
    Column("node", "string", "", "host, or emulated node"),
    Column("gpu", "int32", "", "index on the node; null on CPU without emulated devices"),
    Column("uuid", "string", "", "device identity; null as gpu"),
    Column("local_rank", "int32", "", "rank inside the node"),
    Column("dp", "int32", "", "data-parallel coordinate"),
    Column("pp", "int32", "", "pipeline stage"),
    Column("tp", "int32", "", "tensor-parallel coordinate"),
    Column("pod", "string", "", "Kubernetes pod; null elsewhere"),
)

SAMPLES: tuple[Column, ...] = (
    Column("time", "float64", "seconds", "unix time of the scrape"),
    Column("node", "string", "", "node whose collector was scraped"),
    Column("gpu", "int32", "", "null = not about a GPU"),
    Column("rank", "int32", "", "null = not about a rank"),
    Column("metric", "string", "", "a name of contract.metrics"),
    Column("labels", "string", "", 'other labels, name="value" joined by commas, sorted;'
           " gpu, uuid, run and rank are left out"),
    Column("value", "float64", "", "the value; up = 0 marks a failed scrape"),
)  # fmt: skip

STEPS: tuple[Column, ...] = (
    Column("step", "int64", "", "optimizer step, from 0"),
    Column("rank", "int32", "", "global rank"),
    Column("attempt", "int32", "", "restart count of the run"),
    Column("start", "float64", "seconds", "unix time"),
    Column("wall_seconds", "float64", "seconds", "whole step"),
    Column("cpu_seconds", "float64", "seconds", "CPU time of the training thread"),
    Column(
        "own_seconds",
        "float64",
        "seconds",
        "step outside blocking collectives; null = not all of them were timed",
    ),
    *(Column(f"{phase}_seconds", "float64", "seconds", f"phase {phase}") for phase in PHASES),
    Column("tags", "string", "", "why slow by design: gc, eval, checkpoint, warmup; comma-joined"),
    Column("loss", "float64", "nats", "training loss; NaN = none"),
    Column("samples", "int64", "", "samples of this rank"),
    Column("tokens", "int64", "", "tokens of this rank"),
    Column("flops", "float64", "", "model FLOPs of this rank, Megatron's formula"),
    Column(
        "wait_seconds", "float64", "seconds",
        "in blocking collectives, arrival to completion; null = not all of them were timed, or the"
        " archive is older than this column: then wall_seconds - own_seconds",
        added=True,
    ),
)  # fmt: skip

OPS: tuple[Column, ...] = (
    # The public op-trace columns (ByteDance-Seed/StragglerAnalysis).
    Column("dp_rank", "int32", "", "data-parallel coordinate"),
    Column("stage", "int32", "", "pipeline stage"),
    Column("rank", "int32", "", "global rank"),
    Column("step", "int64", "", "optimizer step"),
    Column("optype", "string", "", "a name of words.OPS"),
    Column(
        "start_ts", "float64", "seconds", "since the earliest start of the same step on any rank"
    ),
    Column("duration", "float64", "seconds", "end - start"),
    Column("seq_id", "int32", "", "number among ops of the same type, step and rank"),
    Column("mc", "int32", "", "chunk in the stage; -1 = none"),
    Column("gmc", "int32", "", "global chunk; -1 = none"),
    Column("mb_id", "int32", "", "microbatch of compute ops; -1 = none"),
    # Our own.
    Column("tp_rank", "int32", "", "tensor-parallel coordinate"),
    Column("group", "string", "", "process group; empty = local work"),
    Column("sequence", "int64", "", "number of the collective in its group; 0 = local work"),
    Column("bytes", "int64", "bytes", "payload"),
    Column("start_ns", "int64", "nanoseconds", "arrival, unix time on the run's aligned clock"),
    Column("end_ns", "int64", "nanoseconds", "completion, same clock"),
    Column("flags", "string", "", "names of ring.FLAG_NAMES, comma-joined"),
    Column("tag", "string", "", "which tensor or bucket"),
)

# GET /ops?run=RUN&from_step=A&to_step=B (A inclusive, B exclusive) answers
# {"schema_version": 1, "run": RUN,
#  "unreadable": [{"rank", "why"}] of ranks that are here and whose ring cannot be read now,
#  "ranks": [
#    {"rank", "node", "world", "local_rank", "attempt", "pid", "dp", "pp", "tp", "ep", "cp", "gpu",
#     "uuid", "state", "start_wall_ns", "wall_minus_monotonic_ns", "clock_offset_ns",
#     "clock_error_ns",
#     "first_step_held": oldest step still in the ring, or null, "truncated": bool,
#     "missing": {"from_step": A, "to_step": B}: the steps asked for that were overwritten or went
#     over OPS_MAX_BYTES_PER_RANK, or null; truncated = missing is not null,
#     "steps": {column: [values]} with OPS_JSON_STEPS; own_ns and wait_ns null = unknown;
#     collectors before version 2 of the ring answer without wait_ns,
#     "ops": {column: [values]} with OPS_JSON_OPS}]}.
# No rank of the run on this node: 404. Ranks of it, and none that can be read now: 503.
OPS_JSON_STEPS: tuple[str, ...] = (
    "step", "start_ns", "wall_ns", "cpu_ns", "own_ns", "phase_ns", "tags", "samples", "tokens",
    "flops", "loss", "wait_ns",
)  # fmt: skip
OPS_JSON_OPS: tuple[str, ...] = (
    "op", "group", "flags", "step", "sequence", "tag", "bytes", "enqueue_ns", "complete_ns",
)  # fmt: skip
OPS_MAX_BYTES_PER_RANK = 2_000_000
