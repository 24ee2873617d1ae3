"""The verdict that goes into a finding's archive."""

from collections.abc import Sequence
from dataclasses import replace

from analyzer.run import Culprit, Verdict
from analyzer.watch.finding import WatchFinding, who_of


def concluded(
    finding: WatchFinding, archived: Verdict | None, judged: Verdict | None, missing: Sequence[str]
) -> Verdict:
    """The verdict about the archive, if it names whom the finding names; else the one that did.

    The archive has the operations of the last steps, which may all lie after the slowness began, so
    that nothing in them is slower than before.

    Args:
        finding: What the archive is about.
        archived: The verdict about the archive; None = it could not be diagnosed.
        judged: The verdict from windows by which the finding opened; None = it was no verdict.
        missing: What the archive lacks, in words.
    """
    if archived is not None and names(archived, finding):
        return _with(archived, missing)
    if judged is not None and names(judged, finding):
        words = "the archive alone does not name the culprit; the verdict is that of the windows"
        return _with(judged, (*missing, words))
    return Verdict(
        run=finding.who.run,
        status="degraded",
        sentence=finding.sentence,
        slowdown=None,
        slowdown_interval=None,
        lost_gpu_hours=None if archived is None else archived.lost_gpu_hours,
        coverage=0.0 if archived is None else archived.coverage,
        culprits=(_culprit(finding),),
        anomalies=() if archived is None else archived.anomalies,
        missing=(*missing, "no diagnosis of the run names the culprit of the finding"),
    )


def names(verdict: Verdict, finding: WatchFinding) -> bool:
    """Whether a verdict names whom the finding is about, more or less exactly."""
    return any(
        (who := who_of(verdict.run, each)).covers(finding.who) or finding.who.covers(who)
        for each in verdict.culprits
    )


def _with(verdict: Verdict, missing: Sequence[str]) -> Verdict:
    return replace(verdict, missing=tuple(dict.fromkeys((*verdict.missing, *missing))))


def _culprit(finding: WatchFinding) -> Culprit:
    who = finding.who
    return Culprit(
        scope=finding.scope, rank=who.rank, node=who.node, gpu=who.gpu, uuid=finding.uuid,
        dp=None, pp=None, tp=None, link=who.link, from_step=finding.from_step, to_step=None,
        since=None, slowdown=finding.slowdown, slowdown_interval=None, cause=finding.cause,
        confidence=finding.confidence, tier=finding.tier.value, evidence=finding.facts,
    )  # fmt: skip
