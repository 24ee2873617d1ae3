"""The fields of a cause: what it is expected to show, its words and its advice."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lockstep.collector.contract.words import Cause

STRAGGLER_RUNBOOK = "LockstepStragglerNode"


@dataclass(frozen=True, slots=True)
class Action:
    """One action; `{node}`, `{gpu}` and `{rank}` in a command are filled in and quoted."""

    purpose: str
    text: str
    command: str = ""


DRAIN = Action("mitigate", "Take the node out of service after the next checkpoint.",
               "kubectl cordon {node} && kubectl drain {node} --ignore-daemonsets")  # fmt: skip
QUERY = "ssh {node} nvidia-smi -i {gpu} -q -d "
"""The driver's report about the rank's GPU; the topics are appended."""


class Expectation(StrEnum):
    """What physics expects of a symptom under a cause, before any run is seen."""

    MUST = "must"
    """It is there wherever it is measured."""
    MAY = "may"
    """It is likelier than without the cause."""
    AGAINST = "against"
    """It belongs to another cause, which would explain the slowness."""


MUST, MAY, AGAINST = Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSpec:
    """Everything about one cause; sentences, report, dashboard and alerts take it from here.

    Attributes:
        cause: Its word, a row of `lockstep.collector.contract.words`.
        expects: Symptoms (analyzer.causes.symptoms) by what is expected of them: where the fit of
            the weights begins (lockstep.analyzer.causes.cause_weights).
        kinds: Of findings that it can be the cause of.
        must_see: What is there if it is the cause.
        must_not_see: What speaks against it.
        words: What the sentence says of a rank, behind its name.
        node_words: The same of a node, all of whose ranks have it.
        words_without_gpu: `words` of a rank without a GPU; None = the same.
        advice: What to do; empty = the same as for an unknown cause.
        advice_without_gpu: The same on nodes without GPUs; None = the same.
        runbook: The alert whose runbook says more.
        runbook_without_gpu: The same on nodes without GPUs; None = the same.
        of_gpu: Only a rank with a GPU can have it; nothing of it is missing on the others.
        of_network: It lies between ranks, so communication is the limit.
        explains: Parts of a node's own hardware (`anomalies.watched_metrics.Subject`)
            whose deviation costs time where this is the cause.
    """

    cause: Cause
    expects: Mapping[Expectation, tuple[str, ...]]
    kinds: tuple[str, ...] = ("slow",)
    must_see: str
    must_not_see: str = ""
    words: str
    node_words: str
    words_without_gpu: str | None = None
    advice: tuple[Action, ...] = ()
    advice_without_gpu: tuple[Action, ...] | None = None
    runbook: str = STRAGGLER_RUNBOOK
    runbook_without_gpu: str | None = None
    of_gpu: bool = False
    of_network: bool = False
    explains: tuple[str, ...] = ()
