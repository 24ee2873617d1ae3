"""Dumps of the ranks of a node that were asked for, and what else the node knows of these ranks."""

from lockstep.collector.rank_dumps.asking import (
    Answer,
    Answers,
    of_newest_attempt,
    ranks_below,
    request_dumps,
)
from lockstep.collector.rank_dumps.facts import Heard, facts, heard
from lockstep.collector.rank_dumps.stacks import take_stacks

__all__ = [
    "Answer", "Answers", "Heard", "facts", "heard", "of_newest_attempt", "ranks_below",
    "request_dumps", "take_stacks",
]  # fmt: skip
