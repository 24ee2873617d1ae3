"""The six numbers of the first page."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.report.figures import UNKNOWN, cell
from lockstep.dashboard.shapes import Answer, FindingRow, FleetSnapshot, RunRow
from lockstep.dashboard.words.now import looked_at
from lockstep.dashboard.words.number import Number
from lockstep.dashboard.words.spent import HOUR, lost


def numbers(
    runs: Sequence[RunRow],
    findings: Sequence[FindingRow],
    fleet: FleetSnapshot | None,
    answer: Answer,
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
        _gpus(fleet, findings, about) if answer.live else _named(findings, about),
        Number("Worst slowdown", cell(slowest, "ratio"),
               f"{more:+.0%} step time" if more >= 0.005 else _of_known(about), more >= 0.005,
               "Step time over the step time without the culprits, of the slowest run of which it"
               " is known; 1.00x is as it should be."),
        Number(*spent, help="Time times GPUs: what they lost to culprits, in the"
                            f" {len(told):,} analyzed runs of this range."),
        _useful(told),
        _counted(findings, about, answer),
    )  # fmt: skip


def _of_known(about: Sequence[RunRow]) -> str:
    """Of how many runs it is known, where it is not known of all."""
    known = sum(row.slowdown is not None for row in about)
    return f"known of {known:,} of {len(about):,} runs" if 0 < known < len(about) else ""


def _judged(about: Sequence[RunRow]) -> list[str]:
    """Runs of which somebody can say who holds them back."""
    return [row.run for row in about if row.status in ("healthy", "degraded")]


def _named(findings: Sequence[FindingRow], about: Sequence[RunRow]) -> Number:
    """Of recorded runs: a map is one moment of one run, so who is healthy in all is not told."""
    places = {(one.run, one.node, one.gpu, one.rank, one.link) for one in findings}
    runs = len({one.run for one in findings})
    judged = {*_judged(about), *(one.run for one in findings)}
    if about and not judged:
        return Number("Places named", UNKNOWN, help="Nobody judged these runs.")
    return Number(
        "Places named", f"{len(places):,}", f"in {runs:,} of {len(about):,} runs" if places else "",
        bool(places), "Nodes, GPUs, ranks and links that any finding of these runs names, each"
        " once a run.",
    )  # fmt: skip


def _counted(findings: Sequence[FindingRow], about: Sequence[RunRow], answer: Answer) -> Number:
    """Of what goes on the open ones; of recorded runs all there were."""
    words = "Each stands in the table below."
    if about and not findings and not _judged(about):
        return Number("Open findings" if answer.live else "Findings", UNKNOWN,
                      help="Nobody judged these runs.")  # fmt: skip
    still_open = sum(one.open for one in findings)
    if not (answer.live or still_open):
        return Number("Findings", f"{len(findings):,}", "", bool(findings), words)
    seen = f"of {len(findings):,} seen" if len(findings) > still_open else ""
    return Number("Open findings", f"{still_open:,}", seen, still_open > 0, words)


def _gpus(
    fleet: FleetSnapshot | None, findings: Sequence[FindingRow], about: Sequence[RunRow]
) -> Number:
    words = (
        "GPUs (or ranks on CPU) whose own time is known, whose run somebody judged, and that no"
        " open finding names; out of all that are known. Of one whose own time nobody timed or told"
        " it is not known whether it is healthy, and of an idle one nobody asks."
    )
    if fleet is None or not len(fleet.values):
        return Number("Healthy GPUs", UNKNOWN, help=words)
    label = "Healthy GPUs" if (fleet.gpus >= 0).any() else "Healthy ranks"
    idle = (fleet.runs == "") & ~np.isin(fleet.nodes, list(fleet.silent))
    told = np.isfinite(fleet.values) & np.isin(fleet.runs, _judged(about))
    named = np.zeros(len(told), dtype=bool)
    for one in findings:
        if one.open and one.node:
            here = fleet.nodes == one.node
            if one.gpu is not None:
                here &= fleet.gpus == one.gpu
            elif one.rank is not None:
                here &= fleet.ranks == one.rank
            named |= here
    unknown, at_rest = int((~(told | idle | named)).sum()), int((idle & ~named).sum())
    total = f"of {len(told):,}" + (f", {at_rest:,} idle" if at_rest else "")
    total += f", {unknown:,} not known" if unknown else ""
    value = f"{int((told & ~named).sum()):,}" if told.any() or named.any() else UNKNOWN
    return Number(label, value, total, bool(named.any()), words)


def _useful(told: Sequence[RunRow]) -> Number:
    words = (
        "Share of the GPU time of the analyzed runs that was not lost to culprits. Restarts,"
        " evaluations and waits are not counted here; the Ledger says how much was useful."
    )
    spent = sum(row.ranks * row.span.seconds for row in told) / HOUR
    if not spent > 0:
        return Number("Not lost to culprits", UNKNOWN, help=words)
    share = max(0.0, 1.0 - sum(row.lost_gpu_hours or 0.0 for row in told) / spent)
    return Number("Not lost to culprits", cell(share, "share"), help=words)
