"""What each key of a verdict's JSON means; a test holds it against
`analyzer.shapes.verdict_json`."""

from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.shapes.verdict_json import VERDICT_SCHEMA_VERSION, WHAT_IF
from tests.docs.tables import code, table

VERDICT = {
    "schema_version": f"{VERDICT_SCHEMA_VERSION}; keys are only ever added",
    "run": "the run's id",
    "status": "`healthy`, `degraded` or `unknown`",
    "sentence": "the verdict for a person",
    "slowdown": "step time over what it would be without the culprits, ≥ 1; null = unknown",
    "slowdown_interval": "its 95 % interval",
    "lost_gpu_hours": "GPU-hours lost so far",
    "coverage": "share of the expected step times that were recorded, 0 to 1",
    "culprits": "who holds the run back, below",
    "anomalies": "hardware that deviates from its peers, whether or not it costs time, below",
    "hang": "`group`, `sequence`, `op` and `missing_ranks` of the collective that hangs, or null",
    "structure": "what is slow by the run's own design: `kind` (stage-imbalance,"
    " sequence-length-imbalance, expert-imbalance, periodic, uniform, stage-slowdown,"
    " shared-loading, full-network, shared-cooling, mixed-gpu-models, role-imbalance), `share` of"
    " the step time, `text`",
    "what_if": "what the run would take without stragglers, below",
    "rejected": "who looked slow and was let go: `rank`, `why`",
    "alternatives": "other causes of the first culprit: `cause`, `confidence`",
    "missing": "what is missing, in words",
    "provenance": "`emulated devices`, `simulated GPU telemetry`; empty = all of it was real",
    "lost_money": "GPU-hours lost, at the price given; null = no price",
    "lost_gpu_hours_interval": "95 % interval of `lost_gpu_hours`",
    "lost_money_interval": "95 % interval of `lost_money`",
    "lost_per_day": "projected from the last hour of the trouble: `gpu_hours`, `interval`, `money`,"
    " `money_interval`, `over_seconds` (what was looked at), `goes_on`; null = nothing is lost",
    "recurrence": "for each culprit with a node, how often that node or GPU was a culprit in the 30"
    " days before, by the archives beside: `node`, `gpu`, `uuid`, `by`, `culprit_runs`, `runs`,"
    " `share`, `interval`, `peers_share`, `features`, `causes`, `emulated`, `text`",
    "history": "what `lockstep watch`, or an alert, reported when the archive was written, below",
}
HISTORY = {
    "by": "`watch`, or `alert` where a rule fired and watch itself had found nothing",
    "opened": "when it was reported, RFC 3339",
    "who": "whom, in words",
    "scope": "as of a culprit; `run` where nobody in it was named, `alert` for an alert's",
    "rank, node, gpu, uuid, link, from_step, slowdown, cause, confidence, tier, evidence": "as of"
    " a culprit, as it was then",
    "since": "since when, as far as was known then, RFC 3339",
    "kind": "its origin: `slow` (windows), `stop` (it stood still), `event` (a logged error),"
    " `hardware` (readings); null = unknown",
    "sentence": "what people read",
    "place_agrees": "whether the verdict names the same place, more or less exactly",
    "agrees": "whether it names the same place, and no other cause; if not, `sentence` of the"
    " verdict ends by saying so",
    "closed": "when it was over, RFC 3339; null = it was open",
    "ending": "how it was over, or how its run ended while it was open; null = unknown",
    "lost_seconds": "GPU-seconds (rank-seconds without a GPU) that it cost up to then, by watch;"
    " null = unknown",
    "changed": "what changed since it opened: a cause that became known, its end",
    "text": "in words",
}
CULPRIT = {
    "scope": "`rank`, `node`, `link` or `rack` (a leaf too); `gpu` without training series",
    "rank": "global rank",
    "node": "node",
    "gpu": "index on the node",
    "uuid": "the GPU's identity",
    "dp": "data-parallel coordinate",
    "pp": "pipeline stage",
    "tp": "tensor-parallel coordinate",
    "link": "name of the leaf or rack, or of the link: its nodes, joined by ` -- `",
    "from_step": "first slow step",
    "to_step": "the step after the last slow one; null = no end was seen",
    "since": "the moment of `from_step`, RFC 3339",
    "slowdown": "its own time over its own expected time",
    "cause": "one word, below",
    "confidence": "confidence in the cause: its probability, if this is the place",
    "tier": "`page` = it costs enough to act now, `record` = look at it in working hours",
    "evidence": "what speaks `for` (true) or against the cause: `text`, and the `query` behind it",
    "slowdown_interval": "95 % interval of `slowdown`",
    "place_confidence": "confidence in the place: the probability that it is this rank, node, link"
    " or rack, whatever the cause; null in verdicts of an earlier version",
    "known_to_step": "the step after the last one in which it could be compared with peers, where"
    " the run went on (`to_step` is null); null = to `to_step`, or the end",
}
ANOMALY = {
    "node": "node",
    "gpu": "index on the node; null = the node itself",
    "uuid": "the GPU's identity",
    "metric": "the series that deviates",
    "deviation": "how far, in spreads of healthy parts; for events their number",
    "since": "since when, RFC 3339",
    "costs_time": "whether it explains a culprit of this verdict",
    "text": "in words",
}
WHAT_IF_WORDS = {
    "method": "`simulation` (of operations), `bounds` (from windows) or `none`",
    "S": "step time over ideal step time, as published",
    "S_t": "the same with one type of operation as it was: operation → S",
    "S_dp": "with one replica as it was: dp → S",
    "S_pp": "with one stage as it was: pp → S",
    "M_W": "share of the loss that goes when the slowest 3 % of the workers are ideal",
    "M_S": "the same of the last stage",
    "fixes": "`remove` (whom), `gain` (share more steps an hour), `interval`",
}


def text() -> str:
    """The page."""
    assert set(WHAT_IF_WORDS) == set(WHAT_IF)
    head = ("key", "what")
    parts = [
        "# The verdict as JSON",
        "<!-- Made by `python -m tests.docs`: do not edit. -->",
        (
            "`verdict.json` in an archive, and the output of `lockstep analyze -o json`. Ids that"
            " do not apply and numbers that are unknown are null."
            " [Reading a verdict](../sre/reading-a-verdict.md), [method](../method/index.md)."
        ),
        _rows(head, VERDICT),
        "## Culprits",
        _rows(head, CULPRIT),
        "## History",
        (
            "History never changes the verdict, which is a function of the archive's telemetry:"
            " [alert delivery](../method/alerting.md#what-the-page-said)."
        ),
        _rows(head, HISTORY),
        "## Causes",
        (
            "`unknown`: the place is known, the cause is not. How causes are weighed:"
            " [causes](../method/causes.md)."
        ),
        table(
            ("cause", "it says", "must be seen", "must not be seen"),
            [(code(one.cause), one.words, one.must_see, one.must_not_see) for one in CAUSES],
        ),
        "## Anomalies",
        _rows(head, ANOMALY),
        "## What if",
        (
            "These eight keys are always there. With simulated operations"
            " ([the method](../method/what-if.md)) follow intervals, `S_strata` (structure counted"
            " as no loss), `S_w` (by replica and stage), `S_steps`, `launch_error`, `notes`."
        ),
        _rows(head, WHAT_IF_WORDS),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(head: tuple[str, str], words: dict[str, str]) -> str:
    return table(
        head, [(", ".join(map(code, key.split(", "))), what) for key, what in words.items()]
    )
