"""The verdict about a finding's archive, read again later, that does not contradict the finding."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from analyzer.run import Culprit, Fact, Verdict
from analyzer.watch.concluded import concluded, names
from analyzer.watch.finding import Kind, Tier, WatchFinding, Who

STATUS = ("healthy", "degraded", "unknown")


def upheld(
    archived: Verdict, finding: Mapping[str, Any], told: Mapping[str, Any] | None
) -> Verdict:
    """The verdict about the archive, if it names whom the finding names; else with those it named.

    What is not about the culprits stays as the archive has it.

    Args:
        archived: The verdict about the archive.
        finding: What its finding.json says, not trusted.
        told: What its verdict.json says, likewise; None = there is none.
    """
    about = _finding(finding)
    if about is None or names(archived, about):
        return archived
    said = None if told is None else _said(archived, about, told)
    if said is None or not names(said, about):
        said = concluded(about, archived, None, ())
    return replace(
        archived, status=said.status, sentence=said.sentence, slowdown=said.slowdown,
        slowdown_interval=None, culprits=said.culprits,
        missing=tuple(dict.fromkeys((*archived.missing, *said.missing))),
    )  # fmt: skip


def _finding(tree: Mapping[str, Any]) -> WatchFinding | None:
    key = tree.get("key")
    sentence = _text(tree.get("sentence"))
    if not isinstance(key, dict) or sentence is None or key.get("tier") not in list(Tier):
        return None
    opened = _number(tree.get("opened")) or 0.0
    run = _text(key.get("run")) or ""
    return WatchFinding(
        who=Who(
            run, _text(key.get("node")), _whole(key.get("rank")), _whole(key.get("gpu")),
            _text(key.get("link")),
        ),
        kind=Kind.EVENT, scope=_text(key.get("scope")) or "run", attempt=None,
        cause=_text(key.get("cause")) or "unknown", tier=Tier(key["tier"]),
        confidence=_number(tree.get("confidence")) or 0.0,
        slowdown=_number(tree.get("slowdown")), onset=opened, first_seen=opened, opened=opened,
        seen=opened, closed=None, sentence=sentence, facts=(), folder="",
        uuid=_text(tree.get("uuid")), from_step=_whole(tree.get("from_step")),
    )  # fmt: skip


def _said(archived: Verdict, about: WatchFinding, tree: Mapping[str, Any]) -> Verdict | None:
    """Whom and what verdict.json names; None = it is torn."""
    culprits, sentence, status = (tree.get(name) for name in ("culprits", "sentence", "status"))
    if not isinstance(culprits, list) or not isinstance(sentence, str) or status not in STATUS:
        return None
    return replace(
        archived, run=about.who.run, status=status, sentence=sentence,
        slowdown=_number(tree.get("slowdown")),
        culprits=tuple(
            _culprit(each) for each in culprits if isinstance(each, dict) and each.get("scope")
        ),
        missing=tuple(each for each in _list(tree.get("missing")) if isinstance(each, str)),
    )  # fmt: skip


def _culprit(tree: Mapping[str, Any]) -> Culprit:
    tier = tree.get("tier")
    return Culprit(
        scope=_text(tree.get("scope")) or "run", rank=_whole(tree.get("rank")),
        node=_text(tree.get("node")), gpu=_whole(tree.get("gpu")), uuid=_text(tree.get("uuid")),
        dp=_whole(tree.get("dp")), pp=_whole(tree.get("pp")), tp=_whole(tree.get("tp")),
        link=_text(tree.get("link")), from_step=_whole(tree.get("from_step")),
        to_step=_whole(tree.get("to_step")), since=_text(tree.get("since")),
        slowdown=_number(tree.get("slowdown")), slowdown_interval=None,
        cause=_text(tree.get("cause")) or "unknown",
        confidence=_number(tree.get("confidence")) or 0.0,
        tier=tier if tier in list(Tier) else Tier.RECORD.value,
        evidence=tuple(
            Fact(fact.get("for") is True, text, _text(fact.get("query")) or "")
            for fact in _list(tree.get("evidence"))
            if isinstance(fact, dict) and (text := _text(fact.get("text"))) is not None
        ),
    )  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
