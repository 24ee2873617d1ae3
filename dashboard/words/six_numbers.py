"""The six numbers of the first page."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyzer.report.figures import UNKNOWN, cell
from dashboard.shapes import Answer, FindingRow, Fleet, RunRow
from dashboard.words.now import looked_at
from dashboard.words.spent import HOUR, lost


@dataclass(frozen=True, slots=True)
class Number:
    """One number.

    Attributes:
        label: What it is.
        value: As text; a dash where it is not known.
        delta: Against what it should be; empty = nothing to compare with.
        bad: Whether the difference is to the bad.
        help: What it says.
    """

    label: str
    value: str
    delta: str = ""
    bad: bool = False
    help: str = ""


def numbers(
    runs: Sequence[RunRow], findings: Sequence[FindingRow], fleet: Fleet | None, answer: Answer
) -> tuple[Number, ...]:
    """Six of them.

    Args:
        runs, findings: All in the range.
        fleet: Own time over peers of every GPU; None = nobody told.
        answer: How whole they are.
    """
    about = looked_at(runs, answer)
    slowest = max((row.slowdown for row in about if row.slowdown is not None), default=None)
    told = [row for row in runs if row.lost_gpu_hours is not None]
    spent = lost(sum(row.lost_gpu_hours or 0.0 for row in told) if told else None)
    more = (slowest or 1.0) - 1.0
    return (
        Number("Runs active" if answer.live else "Runs", f"{len(about):,}",
               help="Of a live source those that go on; of archives all."),
        _gpus(fleet, findings) if answer.live else _named(findings, about),
        Number("Worst slowdown", cell(slowest, "ratio"),
               f"{more:+.0%} step time" if more >= 0.005 else "", more >= 0.005,
               "Step time over the step time without the culprits, of the slowest run; 1.00x is as"
               " it should be."),
        Number(*spent, help="Time times GPUs: what they lost to culprits, in the"
                            f" {len(told):,} analyzed runs of this range."),
        _useful(told),
        _counted(findings, answer),
    )  # fmt: skip


def _named(findings: Sequence[FindingRow], about: Sequence[RunRow]) -> Number:
    """Of recorded runs: a map is one moment of one run, so who is healthy in all is not told."""
    places = {(one.run, one.node, one.gpu, one.rank, one.link) for one in findings}
    runs = len({one.run for one in findings})
    return Number(
        "Places named", f"{len(places):,}", f"in {runs:,} of {len(about):,} runs" if places else "",
        bool(places), "Nodes, GPUs, ranks and links that any finding of these runs names, each"
        " once a run.",
    )  # fmt: skip


def _counted(findings: Sequence[FindingRow], answer: Answer) -> Number:
    """Of what goes on the open ones; of recorded runs all there were."""
    words = "Each stands in the table below."
    still_open = sum(one.open for one in findings)
    if not (answer.live or still_open):
        return Number("Findings", f"{len(findings):,}", "", bool(findings), words)
    seen = f"of {len(findings):,} seen" if len(findings) > still_open else ""
    return Number("Open findings", f"{still_open:,}", seen, still_open > 0, words)


def _gpus(fleet: Fleet | None, findings: Sequence[FindingRow]) -> Number:
    words = (
        "GPUs (or ranks on CPU) that no open finding names, out of all that are known. One that"
        " should tell of its run and does not is not healthy; one without a run on a node that"
        " answers is."
    )
    if fleet is None or not len(fleet.values):
        return Number("Healthy GPUs", UNKNOWN, help=words)
    label = "Healthy GPUs" if (fleet.gpus >= 0).any() else "Healthy ranks"
    idle = (fleet.runs == "") & ~np.isin(fleet.nodes, list(fleet.silent))
    told = np.isfinite(fleet.values) | idle
    named = np.zeros(len(told), dtype=bool)
    for one in findings:
        if one.open and one.node:
            here = fleet.nodes == one.node
            if one.gpu is not None:
                here &= fleet.gpus == one.gpu
            elif one.rank is not None:
                here &= fleet.ranks == one.rank
            named |= here
    silent = int((~told).sum())
    total = f"of {len(told):,}" + (f", {silent:,} silent" if silent else "")
    return Number(
        label, f"{int((told & ~named).sum()):,}", total,
        bool(silent or (told & named).any()), words,
    )  # fmt: skip


def _useful(told: Sequence[RunRow]) -> Number:
    words = (
        "Goodput: share of the GPU time of the analyzed runs that was not lost to culprits."
        " Restarts and evaluations are not counted as lost."
    )
    spent = sum(row.ranks * row.span.seconds for row in told) / HOUR
    if not spent > 0:
        return Number("Useful GPU time", UNKNOWN, help=words)
    share = max(0.0, 1.0 - sum(row.lost_gpu_hours or 0.0 for row in told) / spent)
    return Number("Useful GPU time", cell(share, "share"), help=words)
