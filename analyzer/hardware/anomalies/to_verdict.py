"""Deviations -> the anomalies of a verdict: sparse, with whom they cost time, the gravest first.

Keys: docs/reference/verdict.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.causes.symptoms.series import STRONG
from lockstep.analyzer.hardware.anomalies.shape import Deviation, who
from lockstep.analyzer.hardware.anomalies.watched import Subject
from lockstep.analyzer.shapes.run import Culprit, RankInfo
from lockstep.analyzer.shapes.wording import utc

OF_NODE: Mapping[Subject, frozenset[str]] = {
    subject: frozenset(spec.cause for spec in CAUSES if subject in spec.explains)
    for subject in Subject
}
"""What of a node's own hardware explains which causes."""
PARTS = tuple(Subject)


def merge_deviations(found: Iterable[Deviation]) -> tuple[Deviation, ...]:
    """One deviation for each part of each GPU or node: the gravest, with what the others add."""
    parts: dict[tuple[str, int | None, Subject], list[Deviation]] = {}
    for each in found:
        parts.setdefault((each.node, each.gpu, each.subject), []).append(each)
    one = [_one(sorted(together, key=_order)) for together in parts.values()]
    return tuple(sorted(one, key=_order))


def anomalies_json(
    found: Iterable[Deviation], ranks: Sequence[RankInfo], culprits: Sequence[Culprit]
) -> tuple[Mapping[str, Any], ...]:
    """The anomalies as JSON types: those that cost time first, else in their order."""
    uuids = {(info.node, info.gpu): info.uuid for info in ranks if info.gpu is not None}
    told = [(each, any(_explains(each, culprit) for culprit in culprits)) for each in found]
    return tuple(
        {
            "node": each.node,
            "gpu": each.gpu,
            "uuid": uuids.get((each.node, each.gpu)) if each.gpu is not None else None,
            "metric": each.metric,
            "deviation": each.size,
            "since": utc(each.since),
            "costs_time": costs,
            "text": each.text,
        }
        for each, costs in sorted(told, key=lambda one: not one[1])
    )


def _order(each: Deviation) -> tuple[bool, bool, int, float, str, int, str]:
    """What must be seen first: what broke, then what deviates beyond any doubt, part by part.

    Spreads of different parts do not measure the same: half of a PCIe link's lanes are seventy of
    its spreads, half of a clock twenty of its own. They decide between deviations of one part.
    """
    size = float("inf") if each.size is None else abs(each.size)
    return (each.size is not None, size < STRONG, PARTS.index(each.subject), -size, each.node,
            -1 if each.gpu is None else each.gpu, each.text)  # fmt: skip


def _one(together: Sequence[Deviation]) -> Deviation:
    first = together[0]
    part = who(first.node, first.gpu)
    more = (each.text.removeprefix(part).removeprefix(":").strip() for each in together[1:])
    text = "; ".join(dict.fromkeys((first.text, *more)))
    return replace(first, text=text, since=min(each.since for each in together))


def _explains(each: Deviation, culprit: Culprit) -> bool:
    if culprit.node != each.node:
        return False
    if each.gpu is not None:
        return culprit.gpu == each.gpu
    return culprit.cause in OF_NODE.get(each.subject, ())
