"""What is told of the simulated fleet: verdict, findings, events; all say that they are made up."""

from datetime import UTC, datetime
from typing import Any

from lockstep.dashboard.shapes import Event, FindingRow, RunRow, Severity, Span
from lockstep.dashboard.sources.simulated.plan import CAUSES, GPUS_PER_NODE, RUN, Plan
from lockstep.dashboard.sources.simulated.vectors import OWN_SHARE, STEP_SECONDS, step

PROVENANCE = ("simulated fleet: a program made every number, nothing was measured",)
CONFIDENCE = (0.97, 0.81, 0.74)
PLACE_CONFIDENCE = 0.99


def row(plan: Plan, now: float) -> RunRow:
    """The only run."""
    told = verdict(plan, now)
    return RunRow(
        run=RUN, state="running", span=Span(plan.started, now), workload="gpt",
        nodes=-(-plan.ranks // GPUS_PER_NODE), ranks=plan.ranks,
        layout=f"dp={plan.ranks} pp=1 tp=1",
        status=told["status"], sentence=told["sentence"], slowdown=told["slowdown"],
        lost_gpu_hours=told["lost_gpu_hours"], culprits=len(plan.culprits), provenance=PROVENANCE,
    )  # fmt: skip


def verdict(plan: Plan, now: float) -> dict[str, Any]:
    """As docs/reference/verdict.md, written by this program and not by the analyzer."""
    slowdown = step(plan, now) / STEP_SECONDS
    first = plan.culprits[0]
    factor = float(plan.slowdown[first])
    lost = (now - plan.sick) / 3600.0 * plan.ranks * (1 - 1 / slowdown)
    return {
        "schema_version": 1, "run": RUN, "status": "degraded",
        "sentence": (
            f"Simulated: rank {plan.rank[first]} ({where(plan, first)}) takes {factor:.2f}x the own"
            f" time of its peers since {_utc(plan.sick)}: its GPU is too hot. The run's steps take"
            f" {slowdown:.2f}x their ideal time. A program made this fleet."
        ),
        "slowdown": slowdown, "slowdown_interval": [slowdown - 0.02, slowdown + 0.02],
        "lost_gpu_hours": lost, "coverage": 1.0,
        "culprits": [_culprit(plan, number) for number in range(len(plan.culprits))],
        "anomalies": [], "hang": None, "structure": [],
        "what_if": {
            "method": "bounds", "S": slowdown, "S_t": None, "S_dp": None, "S_pp": None,
            "M_W": None, "M_S": None,
            "fixes": [{"remove": plan.names[plan.node[first]], "gain": 1 - 1 / slowdown,
                       "interval": None}],
        },
        "rejected": [], "alternatives": [], "missing": [], "provenance": list(PROVENANCE),
    }  # fmt: skip


def findings(plan: Plan, span: Span) -> tuple[FindingRow, ...]:
    """One a culprit, all open."""
    if span.end < plan.sick:
        return ()
    return tuple(
        FindingRow(
            finding=f"{RUN}/simulated-{number}",
            severity=Severity.CRITICAL if number == 0 else Severity.WARNING,
            open=True, run=RUN, node=plan.names[plan.node[place]], gpu=int(plan.gpu[place]),
            rank=int(plan.rank[place]), link="", cause=CAUSES[number],
            confidence=CONFIDENCE[number], slowdown=float(plan.slowdown[place]), since=plan.sick,
            until=None,
            sentence=f"Simulated: rank {plan.rank[place]} ({where(plan, place)}) takes"
            f" {plan.slowdown[place]:.2f}x the own time of its peers.",
            place_confidence=PLACE_CONFIDENCE,
        )
        for number, place in enumerate(plan.culprits)
    )  # fmt: skip


def events(plan: Plan, span: Span) -> tuple[Event, ...]:
    """What happened, by time."""
    hot = plan.culprits[0]
    hourly = [
        Event(at, at + 20.0, "checkpoint", Severity.OK, "checkpoint (simulated)", RUN)
        for at in (plan.started + 3600.0 * hour for hour in range(1, 25))
    ]
    mine = {"run": RUN, "node": plan.names[plan.node[hot]], "gpu": int(plan.gpu[hot]),
            "rank": int(plan.rank[hot])}  # fmt: skip
    begun = [
        Event(one.since, None, "finding", one.severity, f"finding opened: {one.cause} (simulated)",
              one.run, one.node, one.gpu, one.rank, one.finding)
        for one in findings(plan, span)
    ]  # fmt: skip
    heat = Event(plan.sick, None, "throttle", Severity.WARNING,
                 "hardware thermal slowdown (simulated)", **mine)  # fmt: skip
    last = plan.culprits[-1]
    xid = Event(
        plan.sick + 60.0, None, "xid", Severity.CRITICAL, "XID 121 (simulated)", RUN,
        plan.names[plan.node[last]], int(plan.gpu[last]), int(plan.rank[last]),
    )  # fmt: skip
    inside = [one for one in (*hourly, heat, xid, *begun)
              if one.at < span.end and (one.until or span.end) >= span.start]  # fmt: skip
    return tuple(sorted(inside, key=lambda one: one.at))


def where(plan: Plan, place: int) -> str:
    """A GPU for people."""
    return f"{plan.names[plan.node[place]]}, GPU {plan.gpu[place]}"


def _culprit(plan: Plan, number: int) -> dict[str, Any]:
    place = plan.culprits[number]
    factor = float(plan.slowdown[place])
    return {
        "scope": "rank", "rank": int(plan.rank[place]), "node": plan.names[plan.node[place]],
        "gpu": int(plan.gpu[place]), "uuid": uuid(place), "dp": int(plan.rank[place]), "pp": 0,
        "tp": 0, "link": None, "from_step": int((plan.sick - plan.started) / STEP_SECONDS),
        "to_step": None, "since": _utc(plan.sick), "slowdown": factor, "cause": CAUSES[number],
        "confidence": CONFIDENCE[number], "tier": "page" if number == 0 else "record",
        "evidence": [{
            "for": True, "query": "made by a program",
            "text": f"simulated: {factor * OWN_SHARE * STEP_SECONDS:.2f} s of own time per step,"
            f" its peers {OWN_SHARE * STEP_SECONDS:.2f} s",
        }],
        "place_confidence": PLACE_CONFIDENCE,
    }  # fmt: skip


def uuid(place: int) -> str:
    """Of a GPU."""
    return f"SIM-{place:012d}"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
