"""Which finding an alert belongs to, and what `finding.json` then says of the alert.

The alert of a finding has the finding's labels. One of a rule knows less (a node and a GPU) or
other things (an XID): it belongs to the finding that it does not contradict and shares most with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.findings.alertmanager.webhook import ReceivedAlert

FINDING_ALERT = "LockstepFinding"
PLACES = ("run", "node", "rank", "gpu")
"""Labels that mean the same in alerts of rules; `cause` may be another thing there."""
OF_FINDING = (*PLACES, "link", "cause", "tier")
AFTERWARDS_SECONDS = 600.0
"""A rule may notice when its finding is over: one of ten minutes is still evaluated."""


def matching_finding(
    alert: ReceivedAlert, runs: Sequence[str], findings: Sequence[Mapping[str, Any]]
) -> int | None:
    """Place of the finding that an alert belongs to; None = of none.

    Args:
        alert: With `run` among its labels or not.
        runs: Which runs it may be about.
        findings: What is in each `finding.json`.
    """
    ranked = [
        (score, opened, place)
        for place, finding in enumerate(findings)
        if (score := _shared(alert, runs, finding)) is not None
        and (opened := _number(finding.get("opened"))) is not None
    ]
    return max(ranked)[2] if ranked else None


def with_alert(
    finding: Mapping[str, Any], alert: ReceivedAlert, received: float
) -> dict[str, Any] | None:
    """The finding with an alert in it; None = it says so already.

    Whether it fires or ended may come in any order and more than once: an end stays, and the first
    time that it was heard of stays.
    """
    told = [each for each in finding.get("alerts") or () if isinstance(each, dict)]
    known = next((each for each in told if _is(each, alert)), None)
    if known is None:
        entry = {
            "name": alert.labels.get("alertname", ""),
            "fingerprint": alert.fingerprint,
            "labels": dict(alert.labels),
            "summary": alert.annotations.get("summary", ""),
            "starts_at": alert.starts_at,
            "received": received,
            "ends_at": alert.ends_at,
        }
        return {**finding, "alerts": [*told, entry]}
    if alert.ends_at is None or known.get("ends_at") is not None:
        return None
    ended = {**known, "ends_at": alert.ends_at}
    return {**finding, "alerts": [ended if each is known else each for each in told]}


def _shared(alert: ReceivedAlert, runs: Sequence[str], finding: Mapping[str, Any]) -> float | None:
    """How much an alert has in common with a finding; None = it is not about it."""
    if any(_is(each, alert) for each in finding.get("alerts") or () if isinstance(each, dict)):
        return float("inf")
    key = finding.get("key")
    if not isinstance(key, dict) or str(key.get("run") or "") not in runs:
        return None
    closed = _number(finding.get("closed"))
    own = alert.labels.get("alertname") == FINDING_ALERT
    # Ours begins when its finding opens: what closed before is an earlier finding of that place.
    afterwards = 0.0 if own else AFTERWARDS_SECONDS
    if closed is not None and closed < alert.starts_at - afterwards:
        return None
    shared = 0.0
    for name in OF_FINDING if own else PLACES:
        theirs = "" if key.get(name) is None else str(key[name])
        ours = alert.labels.get(name, "")
        if ours == theirs:
            shared += bool(ours)
        elif own or (ours and theirs):
            return None
    return shared


def _is(entry: Mapping[str, Any], alert: ReceivedAlert) -> bool:
    return (entry.get("fingerprint"), entry.get("starts_at")) == alert.key


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
