"""The verdict in at most three sentences: who and why, how much, how sure."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.report import figures
from lockstep.analyzer.shapes.run import Culprit, Verdict
from lockstep.analyzer.shapes.wording import ACCUSED, certainty, ratio

NOBODY = {
    "healthy": "Nobody holds this run back",
    "degraded": "The run is slow, and no rank is to blame",
    "unknown": "Nobody can be named",
}


def title(verdict: Verdict) -> str:
    """The verdict as a heading: who and why, without figures that need a unit."""
    then = "".join(
        f"; {told['by']} told of {told['who']}: {told['cause']}" for told in _disputed(verdict)
    )
    if not verdict.culprits:
        return NOBODY[verdict.status] + then
    stopped = _stopped(verdict)
    named = verdict.culprits[:ACCUSED]
    words = "; ".join(_charge(culprit, stopped=stopped) for culprit in named)
    return words + _more(verdict) + then


def summary(verdict: Verdict, unit: str = "gpu hours") -> list[str]:
    """One to three sentences, each with its full stop, and what was told before if it differs.

    Args:
        verdict: What is told.
        unit: Of what is lost (report.figures).
    """
    if not verdict.culprits and verdict.status == "unknown":
        # Why nobody can be named is the verdict's own sentence.
        return [verdict.sentence]
    sure = [f"coverage {figures.cell(verdict.coverage, 'share')}"]
    if verdict.culprits:
        sure = [*_sure(verdict.culprits), *sure]
    sure += verdict.provenance
    told = ", ".join(sure)
    texts = [str(told["text"]) for told in _disputed(verdict)]
    then = [f"{text[0].upper()}{text[1:]}." for text in texts]
    return [
        f"{_who(verdict)}.",
        f"{_how_much(verdict, unit)}.",
        f"{told[0].upper()}{told[1:]}.",
        *then,
    ]


def _disputed(verdict: Verdict) -> list[Mapping[str, Any]]:
    """What was told of the run before and the verdict does not say."""
    return [told for told in verdict.history if not told["agrees"]]


def _sure(culprits: Sequence[Culprit]) -> list[str]:
    """Of the least sure: in the place, where it is told, and in the cause."""
    places = [one.place_confidence for one in culprits if one.place_confidence is not None]
    told = [("confidence in the place", places), ("in the cause", [c.confidence for c in culprits])]
    each = "at least " if len(culprits) > 1 else ""
    words = [f"{what} {each}{certainty(min(some))}" for what, some in told if some]
    return words if places else [f"confidence {word}" for word in words]


def _stopped(verdict: Verdict) -> bool:
    """Whether the run hung, or ended with a rank that was the first to go."""
    return verdict.hang is not None or any(
        culprit.slowdown is None and culprit.scope == "rank" for culprit in verdict.culprits
    )


def _who(verdict: Verdict) -> str:
    if not verdict.culprits:
        return NOBODY[verdict.status]
    stopped = _stopped(verdict)
    named = [_accused(culprit, stopped=stopped) for culprit in verdict.culprits[:ACCUSED]]
    words = "; ".join(named) + _more(verdict)
    return f"{words[0].upper()}{words[1:]}"


def _accused(culprit: Culprit, *, stopped: bool) -> str:
    where = [culprit.node] if culprit.rank is not None and culprit.node else []
    where += [] if culprit.gpu is None else [f"GPU {culprit.gpu}"]
    words = culprit.who + (f" ({', '.join(where)})" if where else "")
    if culprit.slowdown is not None:
        words += f" is {figures.cell(culprit.slowdown, 'ratio')} slower than it should be"
    else:
        words += " stopped the run" if stopped else " holds the run back"
    if culprit.from_step is not None:
        words += f" from step {culprit.from_step}"
        words += "" if culprit.to_step is None else f" to {culprit.to_step}"
    return f"{words}: {CAUSE_WORDS.get(culprit.cause, culprit.cause)}"


def _how_much(verdict: Verdict, unit: str) -> str:
    lost = figures.cell(verdict.lost_gpu_hours, unit)
    money = f", {figures.cell(verdict.lost_money, 'money')} at the price given"
    money = "" if verdict.lost_money is None else money
    if _stopped(verdict):
        return f"The run stands still, and {lost} are lost{money}"
    if verdict.slowdown is None:
        return f"The run lost {lost}{money}"
    slow = figures.cell(verdict.slowdown, "ratio")
    return f"The run's steps take {slow} their ideal time, and {lost} are lost{money}"


def _charge(culprit: Culprit, *, stopped: bool) -> str:
    who = f"{culprit.who[0].upper()}{culprit.who[1:]}"
    who += "" if culprit.rank is None else f" on {culprit.node}"
    how = "stopped" if stopped else "holds the run back"
    how = how if culprit.slowdown is None else f"is {ratio(culprit.slowdown)} slower"
    return f"{who} {how}: {culprit.cause}"


def _more(verdict: Verdict) -> str:
    count = len(verdict.culprits) - ACCUSED
    return f"; and {count} more" if count > 0 else ""
