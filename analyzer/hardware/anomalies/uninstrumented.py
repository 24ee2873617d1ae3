"""A job that reports nothing of its training: what its hardware alone says of who holds it back.

How much its GPUs work is another observation of own time (analyzer.hardware.anomalies.activity), in
which the search of windows looks for who became slow. Where nobody is and the whole job works less
since
some moment, each GPU that deviates may be why: its symptoms decide, as of a node that alone holds a
stage, and several share the confidence. Causes are those of the one table. That is less than step
times say, and confidence says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pandas as pd

from lockstep.analyzer.causes.cause_weights import Posterior, posterior
from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.causes.telemetry_quality import drop_stuck_sensors
from lockstep.analyzer.hardware.anomalies.activity import Activity, activity, as_windows
from lockstep.analyzer.hardware.anomalies.deviation import anomalies_json, who
from lockstep.analyzer.hardware.anomalies.distances import LASTS_BINS
from lockstep.analyzer.hardware.anomalies.judge import JudgedHardware, judge
from lockstep.analyzer.hardware.anomalies.panel import Place
from lockstep.analyzer.read.jobs import jobs
from lockstep.analyzer.shapes.run import Basis, Culprit, Fact, Finding, Grid, RankInfo, Run, Verdict
from lockstep.analyzer.shapes.wording import utc
from lockstep.analyzer.stats.coverage import COVERAGE_AT_LEAST
from lockstep.analyzer.stats.robust_stats import NOTHING, median_of
from lockstep.analyzer.stats.significance import FLOOR
from lockstep.analyzer.stragglers.confidence import CERTAIN, HEAVY, accepted, place_confidence
from lockstep.analyzer.stragglers.detectors.change import change
from lockstep.analyzer.stragglers.imbalance import node_of, placed
from lockstep.analyzer.stragglers.model.effects import effects
from lockstep.analyzer.stragglers.model.precision import WINDOWS

SCRAPES = replace(WINDOWS, block_steps=1, steps=LASTS_BINS, transient_steps=LASTS_BINS)
"""A scrape is the mean of many steps; it lasts as any deviation of hardware must."""
NO_SERIES = "no training series: neither step times nor collectives"


def uninstrumented(
    name: str, samples: pd.DataFrame, job: Sequence[Place], ranks: Sequence[RankInfo] = ()
) -> Verdict:
    """The verdict about a job of which only allocation and hardware are known.

    Args:
        name: The job's name.
        samples: contract.archive.SAMPLES, of the job's nodes or of more.
        job: (node, gpu) of each of its GPUs: from lockstep.analyzer.read.jobs, or given.
        ranks: Who runs on them, where that is known.
    """
    judged = judge(samples, ranks)
    places = judged.panel.places
    wanted = list(dict.fromkeys(job))
    members = [place for place in wanted if place in places]
    seen = activity(judged.panel, [places.index(place) for place in members]) if members else None
    coverage = _coverage(seen, len(wanted))
    named: list[tuple[Finding, Posterior]] = []
    culprits: tuple[Culprit, ...] = ()
    slower, since = None, None
    if seen is not None:
        infos = _infos(members, ranks)
        grid = drop_stuck_sensors(as_windows(seen, judged.panel, infos, judged.samples))
        less = change(grid, SCRAPES)
        if len(members) > 1 and coverage >= COVERAGE_AT_LEAST:
            named = _accused(grid, less, judged, seen)
        believed = max(1.0 - len(judged.missing) / len(members), 0.0)
        most = CERTAIN * coverage * believed
        culprits = tuple(_culprit(grid, *one, most, seen, ranks) for one in named)
        first = next(iter((*(finding for finding, _ in named), *less)), None)
        if first is not None:
            slower, since = _steps_longer(grid, first), utc(float(grid.start[first.first]))
    ratio = None if slower is None else 1.0 / slower
    words = (
        culprit_sentence(culprits, seen, ratio)
        if culprits and seen is not None
        else no_culprit_sentence(len(members), len(wanted), seen, ratio, since)
    )
    return Verdict(
        run=name,
        status="degraded" if culprits else "unknown",
        sentence=words,
        slowdown=slower if seen is not None and seen.share else None,
        slowdown_interval=None,
        lost_gpu_hours=None,
        coverage=coverage,
        culprits=culprits,
        alternatives=named[0][1].alternatives if named else (),
        anomalies=anomalies_json(judged.deviations, ranks, culprits),
        missing=(NO_SERIES, *judged.missing),
        provenance=("simulated GPU telemetry",) * bool(judged.panel.simulated.any()),
    )


def _coverage(seen: Activity | None, expected: int) -> float:
    """Share of the scrapes of all the job's GPUs that told how much they work."""
    if seen is None or not expected:
        return 0.0
    rows = np.isfinite(seen.values).any(axis=1).sum()
    return float(np.isfinite(seen.values).sum() / max(rows * expected, 1))


def _infos(members: Sequence[Place], ranks: Sequence[RankInfo]) -> tuple[RankInfo, ...]:
    """Who is on each GPU; numbers of their own where ranks are not known of all."""
    known = {(info.node, info.gpu): info for info in ranks}
    if all(place in known for place in members):
        return tuple(known[place] for place in members)
    return tuple(
        RankInfo(number, node, gpu, None, gpu, number, 0, 0)
        for number, (node, gpu) in enumerate(members)
    )


def _accused(
    grid: Grid, less: Sequence[Finding], judged: JudgedHardware, seen: Activity
) -> list[tuple[Finding, Posterior]]:
    """Who is slow and why, the surest first; a node once."""
    works_on = tuple(_works_on(grid, seen))
    unexplained = [
        finding
        for finding in less
        if all(abs(finding.first - each.first) >= LASTS_BINS for each in works_on)
    ]
    findings = accepted(grid, (*works_on, *_deviates(grid, unexplained, judged, seen)))
    told, evidences = placed(grid, findings)
    slow = [
        (finding, posterior(evidence))
        for finding, evidence in zip(_shared(told), evidences, strict=True)
        if finding.kind == "slow"
    ]
    places: dict[str | int | None, tuple[Finding, Posterior]] = {}
    for one in sorted(slow, key=lambda each: (-place_confidence(each[0], grid), each[0].first)):
        places.setdefault(node_of(one[0]) or one[0].rank, one)
    return list(places.values())


def _shared(findings: Sequence[Finding]) -> list[Finding]:
    """With one confidence, shared by the GPUs of which each may be why the whole job works less.

    Symptoms say of each GPU whether it is in trouble, and not for which of those that are the
    others wait: that one is at all, in parts as likely as each is.
    """
    alone = [finding.details["place_confidence"] for finding in findings if _may_be_why(finding)]
    share = (1.0 - float(np.prod(1.0 - np.array(alone)))) / max(sum(alone), NOTHING)
    return [
        replace(
            finding,
            details={
                **finding.details,
                "place_confidence": share * finding.details["place_confidence"],
            },
        )
        if _may_be_why(finding)
        else finding
        for finding in findings
    ]


def _may_be_why(finding: Finding) -> bool:
    """Whether symptoms alone say so: nothing in times told it from the others."""
    return "log_ratio" in finding.details


def _works_on(grid: Grid, seen: Activity) -> Iterator[Finding]:
    """GPUs that work on since some moment, while the others wait.

    What one always does more may be its part of the work; and by what nobody waits for, no step
    becomes longer.
    """
    for finding in effects(grid, SCRAPES):
        longer = _steps_longer(grid, finding)
        if finding.kind == "slow" and not finding.details["from_start"] and longer >= np.exp(FLOOR):
            text = (
                f"{_where(grid, finding)} has {finding.slowdown:.2f}x the {seen.name} of the other"
                " GPUs since, compared with before: it works while they wait"
            )
            yield replace(finding, text=text)


def _deviates(
    grid: Grid, less: Sequence[Finding], judged: JudgedHardware, seen: Activity
) -> Iterator[Finding]:
    """GPUs that deviate, of a job that works less: before any symptom is asked each as likely.

    As is that it is none of them: jobs wait for their data and their hosts as well.
    """
    deviate = {(deviation.node, deviation.gpu) for deviation in judged.deviations}
    for finding in less:
        text = f"the job's GPUs fell to {1.0 / finding.slowdown:.2f}x of their {seen.name} since"
        for info in grid.ranks:
            if (info.node, info.gpu) in deviate:
                details = {"place_confidence": 1.0 / (len(grid.ranks) + 1), "log_chance": 0.0}
                yield replace(finding, kind=HEAVY, rank=info.rank, text=text, details=details)


def _info(grid: Grid, finding: Finding) -> RankInfo:
    return next(info for info in grid.ranks if info.rank == finding.rank)


def _where(grid: Grid, finding: Finding) -> str:
    """A GPU, or a node all of whose GPUs are slow."""
    info, node = _info(grid, finding), node_of(finding)
    return who(info.node, info.gpu if node is None else None)


def _steps_longer(grid: Grid, finding: Finding) -> float:
    """Seconds of a step while it was slow over those of the other steps; 1 where there are none."""
    wall = grid.time["wall"][:, 0]
    inside = finding.inside(grid)
    return 1.0 if inside.all() else median_of(wall[inside]) / median_of(wall[~inside])


def _culprit(
    grid: Grid, finding: Finding, causes: Posterior, most: float, seen: Activity,
    ranks: Sequence[RankInfo],
) -> Culprit:  # fmt: skip
    info, alone = _info(grid, finding), node_of(finding) is None
    known = info if alone and info in ranks else None
    shown = tuple(fact for fact in causes.facts if fact.basis is not Basis.PHASES)
    return Culprit(
        scope="gpu" if alone else "node",
        rank=None if known is None else known.rank,
        node=info.node,
        gpu=info.gpu if alone else None,
        uuid=None if known is None else known.uuid,
        dp=None if known is None else known.dp,
        pp=None if known is None else known.pp,
        tp=None if known is None else known.tp,
        link=None,
        from_step=None,
        to_step=None,
        since=utc(float(grid.start[finding.first])),
        slowdown=finding.slowdown if seen.share else None,
        slowdown_interval=finding.interval if seen.share else None,
        cause=causes.cause,
        confidence=min(causes.probability, most),
        tier="record",
        evidence=(*shown, Fact(True, finding.text, f"{seen.name} by GPU")),
        place_confidence=min(place_confidence(finding, grid), most),
    )


ALONE = "No training series were there, so this rests on its hardware alone."


def culprit_sentence(culprits: Sequence[Culprit], seen: Activity, ratio: float | None) -> str:
    """The sentence of a verdict that names somebody.

    Args:
        culprits: Who is named, the most certain first.
        seen: How much the job's GPUs work.
        ratio: The peers' activity since over before.
    """
    parts = []
    for culprit in culprits:
        why = CAUSE_WORDS.get(culprit.cause, culprit.cause)
        first = next(fact.text for fact in culprit.evidence if fact.supports)
        rank = "" if culprit.rank is None else f", rank {culprit.rank},"
        parts.append(
            f"{who(str(culprit.node), culprit.gpu)}{rank} probably holds the job back since"
            f" {_clock(culprit.since)} UTC: {why} ({first}). Confidence in the place"
            f" {culprit.place_confidence:.2f}, in the cause {culprit.confidence:.2f}."
        )
    if ratio is not None:
        parts.append(f"Since then the other GPUs have {ratio:.2f}x their {seen.name} of before.")
    return " ".join((*parts, ALONE))


def no_culprit_sentence(
    known: int, expected: int, seen: Activity | None, ratio: float | None, since: str | None
) -> str:
    """The sentence of a verdict that names nobody.

    Args:
        known: GPUs of the job that reported.
        expected: GPUs of the job.
        seen: How much they work; None = not known.
        ratio: Their activity since over before; None = it did not fall.
        since: When it fell.
    """
    if seen is None:
        why = f"{known} of the job's {expected} GPUs reported how much they work"
        return f"Unknown: no training series were there, and {'none' if not known else why}."
    if ratio is not None and since is not None:
        return (
            f"Unknown: the job's GPUs have {ratio:.2f}x their {seen.name} of before since"
            f" {_clock(since)} UTC, and no hardware of theirs shows why. No training series were"
            " there."
        )
    return (
        f"Unknown: no training series were there; among {known} of the job's {expected} GPUs no"
        " hardware holds the others back, which a job that waits for its data or its host looks"
        " like too."
    )


def _clock(since: str | None) -> str:
    return "an unknown time" if since is None else (
        datetime.fromisoformat(since).strftime("%Y-%m-%d %H:%M:%S")
    )  # fmt: skip


def with_hardware(verdict: Verdict, run: Run) -> Verdict:
    """The verdict with the hardware that deviates.

    Of a run that told no step times the hardware alone may say who holds it back; who it does not
    name stays unnamed, in the words of the verdict given.
    """
    if run.windows.empty:
        job = [(info.node, info.gpu) for info in run.ranks if info.gpu is not None]
        every = list(jobs(run.samples).values()) if not run.ranks else []
        job = list(every[0]) if len(every) == 1 else job
        alone = uninstrumented(run.name, run.samples, job, run.ranks) if job else None
        if alone is not None and alone.culprits:
            missing = dict.fromkeys((*verdict.missing, *alone.missing))
            provenance = tuple(dict.fromkeys((*verdict.provenance, *alone.provenance)))
            words = f"{alone.sentence.removesuffix('.')} ({', '.join(provenance)})."
            return replace(
                alone,
                sentence=words if provenance else alone.sentence,
                missing=tuple(missing),
                provenance=provenance,
            )
    judged = judge(run.samples, run.ranks)
    anomalies = anomalies_json(judged.deviations, run.ranks, verdict.culprits)
    return replace(verdict, anomalies=anomalies, missing=(*verdict.missing, *judged.missing))
