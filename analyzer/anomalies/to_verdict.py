"""Deviations -> the anomalies of a verdict: sparse, and with whom they cost time.

Keys: docs/reference/verdict.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.watched import Subject
from analyzer.causes import CAUSES
from analyzer.run import Culprit, RankInfo
from analyzer.wording import utc

OF_NODE: Mapping[Subject, frozenset[str]] = {
    subject: frozenset(spec.cause for spec in CAUSES if subject in spec.explains)
    for subject in Subject
}
"""What of a node's own hardware explains which causes."""


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
    """The anomalies as JSON types."""
    uuids = {(info.node, info.gpu): info.uuid for info in ranks if info.gpu is not None}
    return tuple(
        {
            "node": each.node,
            "gpu": each.gpu,
            "uuid": uuids.get((each.node, each.gpu)) if each.gpu is not None else None,
            "metric": each.metric,
            "deviation": each.size,
            "since": utc(each.since),
            "costs_time": any(_explains(each, culprit) for culprit in culprits),
            "text": each.text,
        }
        for each in found
    )


def _order(each: Deviation) -> tuple[float, str, int, str, str]:
    return (-abs(each.grave), each.node, -1 if each.gpu is None else each.gpu, each.subject,
            each.text)  # fmt: skip


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
