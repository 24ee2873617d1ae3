"""Cause -> the runbook that says more than a report can."""

from collections.abc import Container, Iterable

from analyzer.alert_rules.shape import PLACEHOLDERS
from analyzer.cause_spec import STRAGGLER_RUNBOOK
from analyzer.causes import SPECS
from analyzer.run import Culprit


def runbooks(
    culprits: Iterable[Culprit], without_gpu: Container[str | None] = ()
) -> dict[str, str]:
    """Words -> address, one a runbook; on nodes without a GPU none that is about GPUs."""
    names = dict.fromkeys(_runbook(one, one.node in without_gpu) for one in culprits)
    return {f"Runbook {name}": PLACEHOLDERS.runbook(name) for name in names}


def _runbook(culprit: Culprit, without_gpu: bool) -> str:
    spec = SPECS.get(culprit.cause)
    if spec is None:
        return STRAGGLER_RUNBOOK
    return (spec.runbook_without_gpu if without_gpu else None) or spec.runbook
