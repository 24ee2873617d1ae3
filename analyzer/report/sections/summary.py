"""The verdict at a glance: a title, three sentences, one chart, its cost, and what to do first."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.sections.impact import costs
from lockstep.analyzer.report.series import Spans, against_peers
from lockstep.analyzer.shapes.run import Culprit, Grid, Verdict
from lockstep.analyzer.shapes.wording import ACCUSED, certainty, ratio

NOBODY = {
    "healthy": "No rank holds this run back",
    "degraded": "The run is slow, and no rank is to blame",
    "unknown": "No place can be named",
}


def title(verdict: Verdict) -> str:
    """The verdict as a heading: who and why, without figures that need a unit."""
    then = "".join(
        f"; {earlier['by']} reported {earlier['who']}: {earlier['cause']}"
        for earlier in _disputed(verdict)
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
    certainties = ", ".join(sure)
    texts = [str(earlier["text"]) for earlier in _disputed(verdict)]
    then = [f"{text[0].upper()}{text[1:]}." for text in texts]
    return [
        f"{_who(verdict)}.",
        f"{_how_much(verdict, unit)}.",
        f"{certainties[0].upper()}{certainties[1:]}.",
        *then,
    ]


def _disputed(verdict: Verdict) -> list[Mapping[str, Any]]:
    """What was told of the run before and the verdict does not say."""
    return [earlier for earlier in verdict.history if not earlier["agrees"]]


def _sure(culprits: Sequence[Culprit]) -> list[str]:
    """Of the least sure: in the place, where it is told, and in the cause."""
    places = [
        culprit.place_confidence for culprit in culprits if culprit.place_confidence is not None
    ]
    confidences = [
        ("confidence in the place", places),
        ("in the cause", [c.confidence for c in culprits]),
    ]
    at_least = "at least " if len(culprits) > 1 else ""
    words = [f"{what} {at_least}{certainty(min(some))}" for what, some in confidences if some]
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


FIRST_ACTIONS = 3
"""More do not fit on a screen; all of them stand in their own section."""


def glance(
    grid: Grid,
    verdict: Verdict,
    cut: Spans,
    sources: Sources,
    actions: Block,
    unit: str = "gpu hours",
) -> Block:
    """The section on the first screen.

    Args:
        grid: The run's windows.
        verdict: What it costs.
        cut: Who the culprits are, and since when.
        sources: Where the numbers come from.
        actions: The section on what to do (report.advice), whose first rows are shown.
        unit: Of what is lost (report.figures).
    """
    chart, twin = against_peers(
        grid, cut, grid.time["own"], title="Own time per step", unit="seconds",
        what="Own time per step, without waiting in collectives,", source=sources.own(),
        marks=_stop_mark(verdict, cut),
    )  # fmt: skip
    none = blocks.text("No chart: no own time of a rank answered.") if chart is None else None
    return blocks.section(
        "glance",
        "At a glance",
        [
            chart,
            none,
            blocks.table("What it cost", {"what": "", "how much": ""}, costs(verdict, unit)),
            blocks.table("What to do first", {"where": "", "action": ""}, _first(actions)),
            twin,
        ],
    )


def _stop_mark(verdict: Verdict, cut: Spans) -> Sequence[Mapping[str, Any]]:
    """Where a run that stopped did: there was nothing after it to compare with."""
    first = verdict.culprits[0] if verdict.culprits else None
    if cut.onset is not None or first is None or first.from_step is None:
        return ()
    return ({"step": first.from_step, "label": "stopped"},)


def _first(actions: Block) -> list[list[Any]]:
    """Where and what, of the first rows of the table of actions."""
    table = next(block for block in actions["blocks"] if block["block"] == "table")
    return [[where or "–", action] for _, where, _, action in table["rows"][:FIRST_ACTIONS]]
