"""What was concluded from an op trace, in words."""

import numpy as np

from analyzer.operations import Trace
from analyzer.run import Culprit, Fact, Verdict
from analyzer.slowness import temporal_shape
from analyzer.slowness.robust_stats import interval_95
from analyzer.slowness.significance import TOLD
from analyzer.trace_outliers import Lateness, Suspect
from analyzer.wording import ACCUSED, certainty, hours, milliseconds

OWN_QUERY = "duration of forward-compute and backward-compute by dp_rank, stage, mb_id"
LATE_QUERY = "start_ts of grads-reduce-scatter (or optimizer-clip-main-grad) by dp_rank"
FIX_QUERY = "simulated step time with its computations at the pace of its peers"


def evidence(
    trace: Trace, one: Suspect, late: Lateness | None, gain: float,
    interval: tuple[float, float] | None, *, cancelled: bool,
) -> tuple[Fact, ...]:  # fmt: skip
    """What speaks for a suspect, and against it."""
    low, ratio, high = interval_95(one.excess, one.error)
    told, least, most = _times(ratio, low, high)
    compared = (
        "the same stage of the other replicas"
        if one.by_peers
        else "its own past, because it has too few peers"
    )
    same = ", the length of micro-batches taken out by the other stages" if cancelled else ""
    facts = [
        Fact(
            True,
            f"it computes {told}x as long ({least} to {most})"
            f" as {compared}{same}, {_when(trace, one)}",
            OWN_QUERY,
        )
    ]
    if late is not None:
        facts.append(_waiting(one, late))
    between = "" if interval is None else f" ({interval[0]:.1%} to {interval[1]:.1%})"
    facts.append(
        Fact(
            True,
            f"with it at the pace of its peers the steps would be {gain:.1%} shorter{between}",
            FIX_QUERY,
        )
    )
    return tuple(facts)


def _when(trace: Trace, one: Suspect) -> str:
    if one.first == 0 and one.last is None:
        span = f"in all {len(trace.steps)} steps seen"
    else:
        end = "" if one.last is None else f" to {trace.steps[one.last]}"
        span = f"from step {trace.steps[one.first]}{end}"
    often = float((one.by_step[one.first : one.last] > 0).mean())
    return span + temporal_shape.words(one.shape, often)


def _waiting(one: Suspect, late: Lateness) -> Fact:
    slow = one.by_step > 0
    last = late.last(during=slow)
    if last is None:
        return Fact(False, "no replica keeps the others waiting: its excess hides in slack",
                    LATE_QUERY)  # fmt: skip
    seconds = float(np.median(late.late[last, slow]))
    if last == one.dp:
        text = f"the other replicas wait for replica {last}, {milliseconds(seconds)} a step"
        return Fact(True, text, LATE_QUERY)
    text = f"the replica that the others wait for is {last}, {milliseconds(seconds)} a step"
    return Fact(False, text, LATE_QUERY)


def sentence(verdict: Verdict, trace: Trace) -> str:
    """Of a run with culprits."""
    parts = [_accusation(one, trace) for one in verdict.culprits[:ACCUSED]]
    if (more := len(verdict.culprits) - ACCUSED) > 0:
        parts.append(f"{more} more {'is' if more == 1 else 'are'} slow.")
    assert verdict.slowdown is not None
    assert verdict.lost_gpu_hours is not None
    parts.append(
        f"The run's steps take {verdict.slowdown:.2f}x the time they would without and"
        f" {hours(max(verdict.lost_gpu_hours, 0.0))} are lost{_money(verdict)}."
    )
    return " ".join([*parts, *_by_design(verdict)])


def healthy_sentence(verdict: Verdict, trace: Trace) -> str:
    """Of a run without culprit, and perhaps with structure."""
    uniform = next((one for one in verdict.structure if one["kind"] == "uniform"), None)
    if uniform is not None:
        parts = [f"Slower, and no worker is to blame: {uniform['text']}."]
    else:
        parts = ["Healthy: no worker holds the run back."]
    parts += _by_design(verdict)
    return " ".join(parts) + (
        f" Seen: {len(trace.steps)} steps of {trace.layout.workers} workers,"
        f" {verdict.coverage:.0%} of the traced steps."
    )


def _accusation(one: Culprit, trace: Trace) -> str:
    peers = trace.layout.tp - 1
    fold = f", with its {peers} tensor-parallel peer{'s' if peers > 1 else ''}" if peers else ""
    place = one.confidence if one.place_confidence is None else one.place_confidence
    how = one.evidence[0].text.removeprefix("it ")
    return (
        f"Rank {one.rank} (dp {one.dp}, stage {one.pp}{fold}) {how}: the cause is not known."
        f" Confidence in the place {certainty(place)}."
    )


def _by_design(verdict: Verdict) -> list[str]:
    told = [
        f"{one['text']}{_costs(one['share'])}"
        for one in verdict.structure
        if one["kind"] != "uniform"
    ]
    return [f"By design, no fault: {'; '.join(told)}."] if told else []


def _times(*ratios: float) -> tuple[str, ...]:
    """Digits enough to tell 1 % from 2 %; all as the first."""
    digits = 3 if ratios[0] < 1.2 else 2
    return tuple(f"{ratio:.{digits}f}" for ratio in ratios)


def _costs(share: object) -> str:
    if isinstance(share, float) and share >= TOLD:
        return f" ({share:.0%} of the step)"
    return ""


def _money(verdict: Verdict) -> str:
    money = verdict.lost_money
    return "" if money is None else f" ({money:.2f} at the price given)"
