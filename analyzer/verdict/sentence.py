"""The sentence of a verdict: who, since when, why, at what cost and how sure, in plain words."""

import dataclasses
from datetime import datetime

import numpy as np

from lockstep.analyzer.causes.registry import CAUSE_WORDS, NODE_CAUSE_WORDS, SPECS
from lockstep.analyzer.hangs.run_end import seen_to_end
from lockstep.analyzer.shapes.run import NO_NODES_FAULT, Basis, Culprit, Grid, Verdict
from lockstep.analyzer.shapes.wording import TOLD, certainty, hours, ratio
from lockstep.analyzer.stats.before_after import has_gpu
from lockstep.analyzer.stats.processor import off_processor
from lockstep.analyzer.stats.significance import STEPS_AT_LEAST
from lockstep.analyzer.stragglers.model.minimum_detectable_effect import smallest_noticed
from lockstep.analyzer.stragglers.model.precision import WINDOWS, Precision
from lockstep.collector.contract.words import Cause

DECISIVE = (Basis.TELEMETRY, Basis.PHASES, Basis.COLLECTOR, Basis.OFF_PROCESSOR)
"""Facts that decide the cause; what step times show is in the sentence already."""
STRUCTURE_WORTH_A_WORD = 0.05
"""Share of the step."""
PROJECTED_FROM_SECONDS = 300.0
"""A shorter slow span says little about a day; the JSON and the report have the figure, with its
interval."""


def sentence(
    verdict: Verdict, grid: Grid, why_unknown: str | None, precision: Precision = WINDOWS
) -> Verdict:
    """The verdict with its sentence.

    Args:
        verdict: Complete but for the sentence.
        grid: The run's Grid.
        why_unknown: Why a run without culprit is not called healthy.
        precision: What its windows can show.
    """
    if verdict.culprits:
        parts = [_accusation(verdict, grid, culprit) for culprit in verdict.culprits]
        parts.append(_cost(verdict, grid))
    elif verdict.status == "degraded":
        parts = [f"Slower, and no node is to blame: {_uniform(verdict)}."]
        parts += [_cost(verdict, grid), _seen(verdict, grid)]
    elif why_unknown:
        parts = [f"Unknown: {why_unknown}.", "No rank is named.", _seen(verdict, grid)]
    else:
        parts = ["Healthy: no rank holds the run back.", _seen(verdict, grid)]
        parts.append(_noticed(grid, precision))
    parts.append(_by_design(verdict))
    words = " ".join(part for part in parts if part)
    if verdict.provenance:
        words = f"{words.removesuffix('.')} ({', '.join(verdict.provenance)})."
    return dataclasses.replace(verdict, sentence=words)


def without_loss(verdict: Verdict, grid: Grid) -> str:
    """The verdict's sentence without the loss, for a caller that counts it for longer."""
    if verdict.lost_gpu_hours is None or not (verdict.culprits or verdict.status == "degraded"):
        return verdict.sentence
    return sentence(dataclasses.replace(verdict, lost_gpu_hours=None), grid, None).sentence


def with_whole_loss(verdict: Verdict, grid: Grid, hours_lost: float) -> Verdict:
    """The verdict with the whole loss, by a caller that counted for longer than its windows.

    Args:
        verdict: Names somebody, with the loss in its windows.
        grid: Its windows.
        hours_lost: GPU-hours until it was over.
    """
    before, money, per_day = verdict.lost_gpu_hours, verdict.lost_money, verdict.lost_per_day
    whole = dataclasses.replace(
        verdict,
        lost_gpu_hours=hours_lost,
        lost_gpu_hours_interval=None,
        lost_money=money * hours_lost / before if money is not None and before else None,
        lost_money_interval=None,
        lost_per_day=None if per_day is None else {**per_day, "goes_on": False},
    )
    return sentence(whole, grid, None)


def _accusation(verdict: Verdict, grid: Grid, culprit: Culprit) -> str:
    if culprit.scope in ("link", "rack"):
        return _link(culprit)
    who = f"Rank {culprit.rank} ({_place(culprit)})"
    since = f" ({_clock(culprit.since)} UTC)" if culprit.since else ""
    why = CAUSE_WORDS.get(culprit.cause, culprit.cause)
    if culprit.scope == "node":
        who = f"{culprit.node}, with {_how_many(culprit)} ranks,"
        why = NODE_CAUSE_WORDS.get(culprit.cause, culprit.cause)
    spec = SPECS.get(culprit.cause)
    if spec is not None and spec.words_without_gpu and not has_gpu(grid, culprit.rank):
        why = spec.words_without_gpu
    if culprit.cause == Cause.UNKNOWN and off_processor(culprit):
        they = "its ranks are" if culprit.scope == "node" else "it is"
        what = "waiting for a GPU or asleep" if has_gpu(grid, culprit.rank) else "asleep or waiting"
        why = f"{they} off the processor, {what}, and what it waits for is unknown"
    if culprit.scope == "rank" and (went := seen_to_end(culprit)):
        why = went
    confidence = _confidence(culprit)
    if culprit.slowdown is None:
        hang = verdict.hang or {}
        op = hang.get("op") or "collective"
        began = f" at step {culprit.from_step}{since}" if culprit.from_step is not None else ""
        doubted = _doubted(culprit)
        if doubted or culprit.rank not in hang.get("missing_ranks", ()):
            stopped = "may have stopped" if doubted else "stopped"
            # How the rank itself stands is said already.
            waits = culprit.evidence[0].waits or culprit.evidence[0].text
            waits = f"{waits[0].upper()}{waits[1:]}"
            return f"{who} {stopped} the run{began}: {why}. {waits}. {confidence}"
        others = "the other ranks wait for it"
        return (
            f"{who} stopped the run{began}: {why}, and {others} in {op} number"
            f" {hang.get('sequence')} of group {hang.get('group')}. {confidence}"
        )
    end = "" if culprit.to_step is None else f" to step {culprit.to_step}"
    if culprit.known_to_step is not None:
        end = f" to step {culprit.known_to_step}, after which it had no peer to compare with"
    numbers = [fact.text for fact in culprit.evidence if fact.supports and fact.basis in DECISIVE]
    because = f" ({'; '.join(numbers[:2])})" if numbers else ""
    return (
        f"{who} is {ratio(culprit.slowdown)} slower than it should be from step"
        f" {culprit.from_step}{since}{end}: {why}{because}. {confidence}"
    )


def _how_many(culprit: Culprit) -> str:
    slow, every = culprit.of_ranks or (0, 0)
    return f"{slow} of {every}" if slow < every else "all of its"


def _link(culprit: Culprit) -> str:
    """A link, leaf or rack has no rank: what it costs is told of the run's steps."""
    what = f"The link of {culprit.node}" if culprit.node else f"The link {culprit.link}"
    since = f" ({_clock(culprit.since)} UTC)" if culprit.since else ""
    end = "" if culprit.to_step is None else f" to step {culprit.to_step}"
    why = CAUSE_WORDS.get(culprit.cause, culprit.cause)
    if culprit.scope == "rack":
        name = str(culprit.link)
        what = f"{name[0].upper()}{name[1:]}"
        why = f"{culprit.cause} on all of its nodes"
    numbers = f" ({culprit.evidence[0].text})" if culprit.evidence else ""
    return (
        f"{what} holds the run back from step {culprit.from_step}{since}{end}:"
        f" {why}{numbers}. {_confidence(culprit)}"
    )


def _place(culprit: Culprit) -> str:
    if _of_a_trace(culprit):
        folded = ", with its tensor-parallel peers" if culprit.tp is None else ""
        return f"dp {culprit.dp}, stage {culprit.pp}{folded}"
    gpu = f", GPU {culprit.gpu}" if culprit.gpu is not None else ""
    return f"{culprit.node}{gpu}"


def _clock(since: str) -> str:
    return datetime.fromisoformat(since).strftime("%Y-%m-%d %H:%M:%S")


def _confidence(culprit: Culprit) -> str:
    """How certain the place is, and apart from that the cause, if that is the place."""
    known = culprit.cause != Cause.UNKNOWN
    what = "in the cause" if known else "that no reported data explain it"
    why = f"{what} {certainty(culprit.confidence)}"
    if culprit.place_confidence is None:
        return f"Confidence {why}."
    where = f"in the place {certainty(culprit.place_confidence)}"
    if _of_a_trace(culprit):
        return f"Confidence {where}."
    return f"Confidence {where}{'; if it is this one, ' if _doubted(culprit) else ', '}{why}."


def _of_a_trace(culprit: Culprit) -> bool:
    """Whether operations alone told of it: neither of its node nor of a cause."""
    return culprit.rank is not None and culprit.node is None


def _doubted(culprit: Culprit) -> bool:
    return culprit.place_confidence is not None and culprit.place_confidence < TOLD


def _cost(verdict: Verdict, grid: Grid) -> str:
    parts = []
    if verdict.slowdown is not None and (
        _uniform(verdict) or any(c.slowdown is not None for c in verdict.culprits)
    ):
        parts.append(f"the run's steps take {ratio(verdict.slowdown)} their ideal time")
    # An hour of a rank without a GPU is the same share of the run.
    unit = "GPU" if has_gpu(grid, None) else "rank"
    if verdict.lost_gpu_hours is not None:
        money = (
            "" if verdict.lost_money is None else f" ({verdict.lost_money:.2f} at the price given)"
        )
        parts.append(
            f"{hours(verdict.lost_gpu_hours, unit)} are lost{money}{_per_day(verdict, unit)}"
        )
    words = " and ".join(parts)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _per_day(verdict: Verdict, unit: str) -> str:
    """What goes on costing, where enough of it was seen to speak of days."""
    daily = verdict.lost_per_day
    if daily is None or not daily["goes_on"] or daily["over_seconds"] < PROJECTED_FROM_SECONDS:
        return ""
    money = "" if daily["money"] is None else f" ({daily['money']:.2f})"
    return f", {hours(daily['gpu_hours'], unit)}{money} a day if it goes on"


def _uniform(verdict: Verdict) -> str | None:
    """What is told of a run whose ranks, or those of a stage, all slowed alike."""
    texts = (
        str(structure["text"])
        for structure in verdict.structure
        if structure["kind"] in NO_NODES_FAULT
    )
    return next(texts, None)


def _by_design(verdict: Verdict) -> str:
    """Structure that costs enough to be worth a word here; all of it stands below."""
    texts = [
        f"{structure['text']} ({structure['share']:.0%} of the step)"
        for structure in verdict.structure
        if structure["kind"] not in NO_NODES_FAULT
        and isinstance(structure["share"], float)
        and structure["share"] >= STRUCTURE_WORTH_A_WORD
    ]
    return f"By design, no fault: {'; '.join(texts)}." if texts else ""


def _seen(verdict: Verdict, grid: Grid) -> str:
    """What was looked at; of a run that was not seen from its beginning, since when."""
    steps = int((grid.to_step - grid.from_step)[~grid.masked].sum())
    walls, known = (np.isfinite(grid.time[name]) for name in ("wall", "own"))
    # Where waits were not timed the steps themselves are there.
    what = "own" if (walls & ~known).any() else "step"
    first = int(grid.from_step.min()) if len(grid.from_step) else 0
    since = f" from step {first} on" if first >= STEPS_AT_LEAST else ""
    warm = " after warm-up" if grid.masked.any() else ""
    return (
        f"Seen: {steps} steps of {len(grid.ranks)} ranks{warm}{since},"
        f" {verdict.coverage:.0%} of the expected {what} times."
    )


def _noticed(grid: Grid, precision: Precision) -> str:
    noticed = smallest_noticed(grid, precision)
    if noticed is None:
        return ""
    return f"A rank that became slower by {ratio(noticed)} for half of it would have been noticed."
