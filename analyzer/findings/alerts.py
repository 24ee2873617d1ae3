"""Findings as alerts, and alerts as findings.

An alert has the labels of the rule on `lockstep_finding_active`, so that an Alertmanager that is
reported by both has one, and the words of the verdict.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import quote

from lockstep.analyzer.findings.alertmanager.posting import Alert
from lockstep.analyzer.findings.alertmanager.webhook import FINDING_ALERT, ReceivedAlert
from lockstep.analyzer.findings.finding import ALERT_SCOPE, Incident, Kind, Tier, WatchFinding, Who
from lockstep.analyzer.findings.finding_lifecycle import folder_of
from lockstep.analyzer.findings.headline import (
    LONGEST,
    clipped,
    first_action,
    headline,
    places,
    sureness,
)
from lockstep.analyzer.read.prometheus.promql import quoted
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses, Severity
from lockstep.analyzer.shapes.run import Fact
from lockstep.collector.contract.metrics import FINDING_ACTIVE, RANK_STRAGGLER
from lockstep.collector.contract.words import Cause

MOST_FACTS = 3
"""For and against, each: a message on a telephone."""
LONGEST_FACT = 300
LOOK_BACK_SECONDS = 900.0
"""What was before is what it is compared with."""
SHOWN_FINGERPRINT = 8
"""Characters: enough to distinguish the alerts of one notification."""


def alerts(findings: Iterable[WatchFinding], addresses: Addresses = PLACEHOLDERS) -> list[Alert]:
    """The alerts of findings, open or closed, the most important first: one an incident."""
    ordered = sorted(findings, key=lambda one: (one.tier is not Tier.PAGE, one.opened))
    told: dict[tuple[str, Tier], list[WatchFinding]] = {}
    for one in ordered:
        if not one.quiet:
            told.setdefault((one.alerted.folder, one.alerted.tier), []).append(one)
    heads = [_first(some) for some in told.values()]
    return [alert(head, addresses, others) for head, others in heads]


def _first(findings: Sequence[WatchFinding]) -> tuple[WatchFinding, list[WatchFinding]]:
    """The finding that an incident began with, or the oldest that is left of it; and the others."""
    head = next((one for one in findings if one.folder == one.alerted.folder), findings[0])
    return head, [one for one in findings if one is not head]


def alert(
    finding: WatchFinding,
    addresses: Addresses = PLACEHOLDERS,
    others: Sequence[WatchFinding] = (),
) -> Alert:
    """The alert of a finding.

    Args:
        finding: Open or closed.
        addresses: Where it points to.
        others: Of the same incident.
    """
    run, incident = finding.who.run, finding.alerted
    action, command = first_action(finding, others)
    return Alert(
        labels=_labels(incident),
        annotations={
            "summary": headline(finding, others),
            "description": _description(finding, others),
            "sentence": finding.summary,
            "action": action,
            "command": command,
            "places": places([finding, *others]) if others else "",
            "runbook_url": addresses.runbook(FINDING_ALERT),
            "dashboard_url": f"{addresses.dashboard}/{_page(finding)}",
            "grafana_url": f"{addresses.grafana}/lockstep-run?var-run={_quoted(run)}",
            "report_url": _report(finding.folder, addresses),
            "archive": incident.folder,
        },
        starts_at=incident.opened,
        source=_query(finding, addresses),
    )


def _labels(incident: Incident) -> dict[str, str]:
    """A page is critical, what is for the record a warning."""
    severity = Severity.CRITICAL if incident.tier is Tier.PAGE else Severity.WARNING
    return {"alertname": FINDING_ALERT, **incident.labels, "severity": severity}


def superseded(
    findings: Iterable[WatchFinding], addresses: Addresses = PLACEHOLDERS
) -> list[tuple[Alert, float]]:
    """The last words of alerts in whose place another fires, and since when (unix seconds).

    Place, cause and tier are labels, so what becomes known, a page, or what goes on at another
    place only, is another alert. Receivers that are reported by run hear of both in one message
    (docs/method/alerting.md).
    """
    found = []
    for one in findings:
        for former in one.former:
            before, now = former.incident, one.alerted
            if before.labels == now.labels:
                continue
            words = f"It goes on, and its cause is known: {now.cause}."
            if before.who != now.who:
                there = now.who.words
                words = f"It is over here, and goes on at {there}: another alert is about it."
            if before.tier is not now.tier:
                words = "It goes on, and costs time now: another alert is about it."
            words = clipped(words, LONGEST)
            told = {
                **alert(one, addresses).annotations, "summary": words, "description": words,
                "sentence": words, "action": "", "command": "", "places": "",
                "report_url": _report(before.folder, addresses), "archive": before.folder,
            }  # fmt: skip
            last = Alert(_labels(before), told, before.opened, is_replaced=True)
            found.append((last, former.until))
    return found


def is_owed(finding: WatchFinding, taken: Mapping[str, Collection[str]]) -> bool:
    """Whether an Alertmanager did not take the alert of a finding.

    Args:
        taken: As memory.Memory.taken.
    """
    return not finding.quiet and any(alert(finding).mark not in marks for marks in taken.values())


def of_alert(alert: ReceivedAlert, run: str, received: float) -> WatchFinding:
    """The finding that an archive is written about when the alert of a rule has none.

    It is closed at once: another alert about the same place within ten minutes still belongs to it
    (act.matching), a later one is about something else.

    Args:
        alert: Of a rule.
        run: The run that it is about.
        received: Unix seconds.
    """
    name = alert.labels.get("alertname", "")
    return WatchFinding(
        who=Who(
            run, alert.labels.get("node"), _number(alert.labels.get("rank")),
            _number(alert.labels.get("gpu")), None,
        ),
        kind=Kind.EVENT, scope=ALERT_SCOPE, attempt=None, cause=Cause.UNKNOWN, tier=Tier.PAGE,
        confidence=0.0, slowdown=None, onset=alert.starts_at, first_seen=received,
        opened=received, seen=received, closed=received,
        sentence=alert.annotations.get("summary") or f"The alert {name} fires.", facts=(),
        folder=folder_of(run, received, _place(alert)), uuid=alert.labels.get("uuid"),
    )  # fmt: skip


def _description(finding: WatchFinding, others: Sequence[WatchFinding]) -> str:
    """How sure, the verdict's own sentence, and the first facts: a line each; of what is over, how.

    Of several places first who they are.
    """
    if finding.closed is not None:
        return finding.summary
    every = [places([finding, *others])] if others else []
    words = [*every, sureness(finding), finding.summary, description(finding.evidence)]
    return "\n".join(words).rstrip()


def _report(folder: str, addresses: Addresses) -> str:
    """Where the post-mortem is served; empty where none is."""
    if not addresses.reports or not folder:
        return ""
    return f"{addresses.reports}/{quote(folder, errors='replace')}/report.html"


def _query(finding: WatchFinding, addresses: Addresses) -> str:
    """The page of Prometheus that draws what the finding is about; empty where it is not known."""
    if not addresses.prometheus:
        return ""
    who = finding.who
    slow = finding.kind is Kind.SLOW and who.rank is not None
    metric = RANK_STRAGGLER if slow else FINDING_ACTIVE
    told = {"run": who.run, "rank": who.rank if slow else None, "node": None if slow else who.node}
    labels = ",".join(
        f"{name}={quoted(str(value))}" for name, value in told.items() if value not in (None, "")
    )
    query = f"{metric.name}{{{labels}}}"
    return f"{addresses.prometheus}/graph?g0.tab=0&g0.range_input=1h&g0.expr={_quoted(query)}"


def description(facts: Iterable[Fact]) -> str:
    """The first facts for and against, a line each."""
    by_side: dict[bool, list[str]] = {True: [], False: []}
    for fact in facts:
        by_side[fact.supports].append(fact.text)
    return "\n".join(
        f"{'for' if supports else 'against'}: {text[:LONGEST_FACT]}"
        for supports, texts in by_side.items()
        for text in texts[:MOST_FACTS]
    )


def _place(alert: ReceivedAlert) -> str:
    """What its archive is called: alerts of one notification share the second, not the archive."""
    labels = alert.labels
    words = [labels.get("alertname", ""), labels.get("node", "")]
    words += [f"{name}-{labels[name]}" for name in ("rank", "gpu") if labels.get(name)]
    return "-".join(word for word in (*words, alert.fingerprint[:SHOWN_FINGERPRINT]) if word)


def _page(finding: WatchFinding) -> str:
    """The page that says who and why, from a while before it began: its node's without a run."""
    who = finding.who
    words: dict[str, object] = {
        "run": who.run, "node": who.node, "gpu": who.gpu, "rank": who.rank,
        "from": round((finding.onset - LOOK_BACK_SECONDS) * 1000), "finding": finding.folder,
    }  # fmt: skip
    told = "&".join(
        f"{name}={_quoted(str(value))}" for name, value in words.items() if value not in (None, "")
    )
    return f"{'straggler' if who.run else 'node'}?{told}"


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="replace")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
