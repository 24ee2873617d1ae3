"""The buckets of a ledger as data: a rank-second is in exactly one (docs/method/ledger.md)."""

from dataclasses import dataclass
from enum import StrEnum


class Bucket(StrEnum):
    """Where a rank-second went."""

    QUEUED = "queued"
    STARTING = "starting"
    USEFUL = "useful"
    STRAGGLER = "straggler"
    COMMUNICATION = "communication"
    STALL = "stall"
    SAVED = "checkpoint-saved"
    RESTORED = "checkpoint-restored"
    REPLAYED = "replayed"
    WAITING = "waiting-for-node"
    EVALUATION = "evaluation"
    ENDING = "ending"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One bucket.

    Attributes:
        bucket: Its name.
        title: In a table for people.
        definition: What is in it.
        source: What it is reported by.
        productive: Whether Google's goodput counts it: progress that was kept.
        running: Whether Meta's ETTR counts it: the job ran, and neither started nor did work again.
    """

    bucket: Bucket
    title: str
    definition: str
    source: str
    productive: bool = False
    running: bool = False


BUCKETS: tuple[Row, ...] = (
    Row(Bucket.USEFUL, "computing",
        "own time of steps that were done for the first time; the whole step where its"
        " collectives were not timed", "steps: own_seconds", productive=True, running=True),
    Row(Bucket.COMMUNICATION, "communication",
        "inside collectives of such steps, or recorded ones between them, and no culprit is the"
        " reason: transfer, pipeline bubbles, ordinary noise",
        "steps: wall_seconds - own_seconds; ops", productive=True,
        running=True),
    Row(Bucket.STRAGGLER, "straggler excess",
        "what a culprit made such a step longer, on every rank, by culprit and cause",
        "the verdict's findings: step time over ideal step time", running=True),
    Row(Bucket.STALL, "stall and hang",
        "from the last completed step of an attempt that crashed or hung to its end",
        "run.json: outcome; rank_up"),
    Row(Bucket.QUEUED, "queued", "submitted, and not started yet",
        "run.json: submitted, started"),
    Row(Bucket.STARTING, "starting",
        "image, rendezvous, compile, load: from the start of an attempt to its first step, and what"
        " warm-up steps take beyond an ordinary one", "run.json: started; step tag warmup"),
    Row(Bucket.SAVED, "checkpoint saved", "inside the phase checkpoint",
        "steps: checkpoint_seconds", running=True),
    Row(Bucket.RESTORED, "checkpoint restored", "a checkpoint was read before the first step",
        "run.json: restored"),
    Row(Bucket.REPLAYED, "steps replayed",
        "steps that an earlier attempt had done on every rank: done again after a restart",
        "steps: step by attempt"),
    Row(Bucket.WAITING, "waiting for a node",
        "between the end of an attempt and the start of the next", "run.json: ended, started;"
        " rank_info by attempt"),
    Row(Bucket.EVALUATION, "evaluation", "inside the phase eval", "steps: eval_seconds",
        running=True),
    Row(Bucket.ENDING, "ending",
        "from a rank's last step to the end of an attempt that finished or that its user ended",
        "run.json: outcome, ended"),
    Row(Bucket.UNKNOWN, "unknown",
        "nothing was recorded, or the work is unknown: between steps, steps whose records"
        " are lost, after the last sign of a run that vanished", "gaps between what is known"),
)  # fmt: skip
"""In the order in which they are shown. Every interval is put into its bucket by what was recorded
of it; `unknown` is so, too, and not what is left of a sum."""

INDEX: dict[Bucket, int] = {row.bucket: place for place, row in enumerate(BUCKETS)}
"""Bucket -> column of a ledger's table."""
PRODUCTIVE = tuple(row.bucket for row in BUCKETS if row.productive)
RUNNING = tuple(row.bucket for row in BUCKETS if row.running)
