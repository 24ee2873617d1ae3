"""A job that tells nothing of its training: what its hardware alone says of who holds it back.

A GPU with a symptom of trouble that slows GPUs, whose peers in the same job began to work less when
it began, holds them back; so does one that works on while all others wait. That is less than step
times say, and the confidence says so: 0.7 at the most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from analyzer.anomalies import JudgedHardware, judge
from analyzer.anomalies.activity import (
    NEAR_BINS,
    Activity,
    Contrast,
    activity,
    change,
    peers_activity_drop,
    sole_active_gpu,
    step_time_ratio,
)
from analyzer.anomalies.panel import Place
from analyzer.anomalies.shape import Deviation, who
from analyzer.anomalies.to_verdict import anomalies_json, utc
from analyzer.anomalies.watched import Subject
from analyzer.causes import CAUSE_WORDS
from analyzer.run import Culprit, Fact, RankInfo, Verdict
from analyzer.slowness.peer_groups import MAJORITY
from collector.contract import metrics
from collector.contract.words import Cause

CERTAIN = (0.4, 0.5, 0.6, 0.7)
"""That it is this one, by what there is of three things: a symptom of it since which its peers wait
counts two, that it works on while they wait one; and one less where some of the job's series
contradict each other or were not there, or so few GPUs that two are no majority."""
CONFIDENT = CERTAIN[-1]
SYMPTOM, WORKS_ON = 2, 1
CAUSES: Mapping[Subject, Cause] = {
    Subject.HEAT: Cause.THERMAL,
    Subject.POWER: Cause.POWER,
    Subject.MEMORY: Cause.ECC,
    Subject.DRIVER: Cause.XID,
    Subject.PCIE: Cause.PCIE,
    Subject.NVLINK: Cause.NVLINK,
    Subject.CLOCK: Cause.UNKNOWN,
}
"""Subject -> cause, the ones that explain first: a lower clock is what heat and power do."""
LATE_BINS = 2
"""Scrapes by which one sign of a trouble may be seen after another (docs/method/causes.md)."""
NO_SERIES = "no training series: neither step times nor collectives"


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A GPU of the job, by its number there, with what speaks against it."""

    member: int
    bin: int
    cause: Cause
    confidence: float
    facts: tuple[Fact, ...]


def uninstrumented(
    name: str, samples: pd.DataFrame, job: Sequence[Place], ranks: Sequence[RankInfo] = ()
) -> Verdict:
    """The verdict about a job of which only allocation and hardware are known.

    Args:
        name: The job's name.
        samples: contract.archive.SAMPLES, of the job's nodes or of more.
        job: (node, gpu) of each of its GPUs: from analyzer.readers.jobs, or given.
        ranks: Who runs on them, where that is known; used for ids only.
    """
    judged = judge(samples, ranks)
    places = judged.fleet.panel.places
    members = [place for place in dict.fromkeys(job) if place in places]
    columns = [places.index(place) for place in members]
    seen = activity(judged.fleet, columns) if columns else None
    coverage = _coverage(seen, len(dict.fromkeys(job)))
    suspects = _suspects(judged, seen, members, coverage) if seen is not None else ()
    culprits = tuple(_culprit(judged, seen, one, members, ranks) for one in suspects if seen)
    slower = None
    if seen is not None:
        begin = suspects[0].bin if suspects else change(seen)
        slower = None if begin is None else (
            begin, peers_activity_drop(seen, begin, suspects[0].member if suspects else None)
        )  # fmt: skip
    since = None if slower is None else utc(float(judged.fleet.panel.times[slower[0]]))
    ratio = None if slower is None else slower[1]
    words = (
        culprit_sentence(culprits, seen, ratio)
        if culprits and seen is not None
        else no_culprit_sentence(len(members), len(dict.fromkeys(job)), seen, ratio, since)
    )
    return Verdict(
        run=name,
        status="degraded" if culprits else "unknown",
        sentence=words,
        slowdown=1.0 / ratio if ratio and seen is not None and seen.share else None,
        slowdown_interval=None,
        lost_gpu_hours=None,
        coverage=coverage,
        culprits=culprits,
        anomalies=anomalies_json(judged.found, ranks, culprits),
        missing=(NO_SERIES, *judged.missing),
        provenance=("simulated GPU telemetry",) * bool(judged.fleet.simulated.any()),
    )


def _coverage(seen: Activity | None, expected: int) -> float:
    """Share of the scrapes of all the job's GPUs that told how much they work."""
    if seen is None or not expected:
        return 0.0
    rows = np.isfinite(seen.values).any(axis=1).sum()
    return float(np.isfinite(seen.values).sum() / max(rows * expected, 1))


def _suspects(
    judged: JudgedHardware, seen: Activity, members: list[Place], coverage: float
) -> tuple[_Suspect, ...]:
    """The GPUs that the hardware accuses, at most one of each kind of evidence."""
    if coverage < 0.5 or len(members) < 2:
        return ()
    works = sole_active_gpu(seen)
    symptoms = _symptoms(judged, seen, members, works)
    doubted = bool(judged.missing) or len(members) < MAJORITY

    def certain(seen_of_it: int) -> float:
        """At most what told of itself; and of several that may be it each as likely."""
        step = CERTAIN[seen_of_it - doubted]
        return min(step, coverage, 1.0 / max(len(symptoms), 1))

    found = []
    for member, (at, first, facts) in symptoms.items():
        same = works is not None and works.column == member
        if same and works is not None:
            facts = (*facts, _works_on(works, members, seen))
        place = certain(SYMPTOM + WORKS_ON if same else SYMPTOM)
        found.append(_Suspect(member, at, CAUSES[first.subject], place, facts))
    if not found and works is not None:
        quiet = not any(each.node == members[works.column][0] for each in judged.found
                        if each.gpu in (None, members[works.column][1])
                        and each.metric != metrics.GPU_POWER.name)  # fmt: skip
        cause = Cause.SLOW_GPU if quiet else Cause.UNKNOWN
        fact = _works_on(works, members, seen)
        found = [_Suspect(works.column, works.bin, cause, certain(WORKS_ON), (fact,))]
    return tuple(sorted(found, key=lambda one: (-one.confidence, one.bin, one.member)))


def _symptoms(
    judged: JudgedHardware, seen: Activity, members: list[Place], works: Contrast | None
) -> dict[int, tuple[int, Deviation, tuple[Fact, ...]]]:
    """Member -> (onset, the symptom that explains most, facts) where its peers wait since."""
    order = list(CAUSES)
    of_member: dict[int, list[Deviation]] = {}
    for each in judged.found:
        place = (each.node, each.gpu if each.gpu is not None else -1)
        if each.slows and place in members and each.subject in CAUSES:
            of_member.setdefault(members.index(place), []).append(each)
    told = {}
    for member, symptoms in of_member.items():
        ratios = {
            each.subject: peers_activity_drop(seen, _bin(judged, each.since), member)
            for each in symptoms
        }
        if works is not None and works.column == member:
            # Its own contrast says when its peers began to wait.
            near = [each for each in symptoms if _with(_bin(judged, each.since), works.bin)]
            ratios |= {each.subject: peers_activity_drop(seen, works.bin, member) for each in near}
        waited = [ratio for ratio in ratios.values() if ratio is not None]
        if not waited:
            continue
        # Heat comes before the clock falls: the first explains, the later is when it costs.
        last = max(
            _bin(judged, each.since) for each in symptoms if ratios[each.subject] is not None
        )
        symptoms = [each for each in symptoms if _with(_bin(judged, each.since), last)]
        symptoms.sort(key=lambda each: order.index(each.subject))
        facts = tuple(Fact(True, each.text, _query(each)) for each in symptoms)
        waits = f"the job's other GPUs fell to {min(waited):.2f}x of their {seen.name} with it"
        fact = Fact(True, waits, f"{seen.name} by GPU")
        told[member] = (last, symptoms[0], (*facts, fact))
    return told


def _culprit(
    judged: JudgedHardware,
    seen: Activity,
    one: _Suspect,
    members: list[Place],
    ranks: Sequence[RankInfo],
) -> Culprit:
    node, gpu = members[one.member]
    info = next((each for each in ranks if (each.node, each.gpu) == (node, gpu)), None)
    return Culprit(
        scope="gpu",
        rank=None if info is None else info.rank,
        node=node,
        gpu=gpu,
        uuid=None if info is None else info.uuid,
        dp=None if info is None else info.dp,
        pp=None if info is None else info.pp,
        tp=None if info is None else info.tp,
        link=None,
        from_step=None,
        to_step=None,
        since=utc(float(judged.fleet.panel.times[one.bin])),
        slowdown=step_time_ratio(seen, one.bin, one.member),
        slowdown_interval=None,
        cause=one.cause,
        confidence=one.confidence,
        tier="record",
        evidence=one.facts,
        # The same signs tell who it is and why.
        place_confidence=one.confidence,
    )


def _works_on(works: Contrast, members: list[Place], seen: Activity) -> Fact:
    text = (
        f"{who(*members[works.column])} has {works.more:.2f}x the {seen.name} of the other GPUs"
        " since, compared with before: it works while they wait"
    )
    return Fact(True, text, f"{seen.name} by GPU")


def _with(symptom: int, onset: int) -> bool:
    """Whether a symptom belongs to an onset: heat comes before it, and a late scrape after."""
    return -LATE_BINS <= onset - symptom <= NEAR_BINS


def _bin(judged: JudgedHardware, since: float) -> int:
    return int(np.searchsorted(judged.fleet.panel.times, since, side="right")) - 1


def _query(each: Deviation) -> str:
    gpu = "" if each.gpu is None else f',gpu="{each.gpu}"'
    return f'{each.metric}{{node="{each.node}"{gpu}}}'


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
        first = culprit.evidence[0].text.removeprefix(f"{who(str(culprit.node), culprit.gpu)}: ")
        rank = "" if culprit.rank is None else f", rank {culprit.rank},"
        parts.append(
            f"{who(str(culprit.node), culprit.gpu)}{rank} probably holds the job back since"
            f" {_clock(culprit.since)} UTC: {why} ({first}). Confidence in"
            f" place and cause {culprit.confidence:.2f}."
        )
    if ratio is not None:
        parts.append(f"Since then the other GPUs have {ratio:.2f}x their {seen.name} of before.")
    return " ".join((*parts, ALONE))


def no_culprit_sentence(
    told: int, expected: int, seen: Activity | None, ratio: float | None, since: str | None
) -> str:
    """The sentence of a verdict that names nobody.

    Args:
        told: GPUs of the job that told of themselves.
        expected: GPUs of the job.
        seen: How much they work; None = not known.
        ratio: Their activity since over before; None = it did not fall.
        since: When it fell.
    """
    if seen is None:
        why = f"{told} of the job's {expected} GPUs told how much they work"
        return f"Unknown: no training series were there, and {'none' if not told else why}."
    if ratio is not None and since is not None:
        return (
            f"Unknown: the job's GPUs have {ratio:.2f}x their {seen.name} of before since"
            f" {_clock(since)} UTC, and the hardware of none tells why. No training series were"
            " there."
        )
    return (
        f"Unknown: no training series were there; of {told} of the job's {expected} GPUs no"
        " hardware holds the others back, which a job that waits for its data or its host looks"
        " like too."
    )


def _clock(since: str | None) -> str:
    return "an unknown time" if since is None else (
        datetime.fromisoformat(since).strftime("%Y-%m-%d %H:%M:%S")
    )  # fmt: skip
