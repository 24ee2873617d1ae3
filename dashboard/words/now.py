"""Is anything holding training back? In one sentence and six numbers; unknown is not healthy."""

import shlex
from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.report.figures import UNKNOWN, cell
from lockstep.analyzer.rules.alert_rules.training import BELOW_BASELINE
from lockstep.dashboard.address import utc
from lockstep.dashboard.shapes import Answer, FindingRow, FleetSnapshot, RunRow, Severity
from lockstep.dashboard.words.findings import worst_first
from lockstep.dashboard.words.said import HOUR, Number, Said, age, is_stale, lost

RUNNING = "running"
STOPPED = ("hung", "failed")


def looked_at(runs: Sequence[RunRow], answer: Answer) -> list[RunRow]:
    """Whom the page is about: of a live source the runs that go on, else all there are."""
    if not answer.live:
        return list(runs)
    return [row for row in runs if row.state in (RUNNING, "hung")]


def spoken(findings: Sequence[FindingRow], answer: Answer) -> FindingRow | None:
    """The finding that the headline tells; None = it tells of none.

    Args:
        findings: All in the range.
        answer: Of a live source only what is open is told.
    """
    ranked = worst_first(findings)
    return ranked[0] if ranked and (ranked[0].open or not answer.live) else None


def headline(
    runs: Sequence[RunRow],
    findings: Sequence[FindingRow],
    answer: Answer,
    fleet: FleetSnapshot | None,
) -> Said:
    """The worst open finding; or that nothing is wrong; or why nobody can say.

    Args:
        runs: All in the range.
        findings: All in the range.
        answer: How whole they are.
        fleet: Own time over peers of every place; None = nobody told.
    """
    about = looked_at(runs, answer)
    ranked = worst_first(findings)
    still_open = [finding for finding in ranked if finding.open]
    if still_open:
        return _open(still_open, about, answer)
    if ranked and not answer.live:
        return _over(ranked, about)
    if not about:
        return _nobody(runs, answer)
    slow = [row for row in about if row.status == "degraded" or row.state in STOPPED]
    if slow:
        first = slow[0]
        sentence = first.sentence or f"Run {first.run} is {first.status or first.state}."
        return Said(_with_run(sentence, first, about) + _silent(answer), Severity.WARNING)
    below = [row for row in about if row.baseline is not None and row.baseline < BELOW_BASELINE]
    if below:
        return Said(_below(below) + _silent(answer), Severity.WARNING)
    doubts = _doubts(about, answer, fleet)
    if doubts:
        if len(about) == 1 and about[0].status == "unknown" and about[0].sentence:
            return Said(about[0].sentence + _silent(answer), Severity.UNKNOWN)
        command = next((_analyze(row) for row in about if row.status is None and row.folder), "")
        return Said(
            "No finding is open, but whether all is well cannot be determined:"
            f" {'; '.join(doubts)}.",
            Severity.UNKNOWN,
            command,
        )
    if len(about) == 1 and about[0].sentence and not answer.live:
        return Said(about[0].sentence, Severity.OK)
    return Said(
        f"Nothing holds training back in {_count(len(about), 'run')} on"
        f" {_count(answer.nodes[1], 'node')}{_age(answer)}.",
        Severity.OK,
    )


def _below(below: list[RunRow]) -> str:
    """All of a run is slower than its baseline, and nobody is named."""
    worst = min(below, key=lambda row: (row.baseline, row.run))
    words = (
        f"Run {worst.run} makes {cell(worst.baseline, 'ratio')} of its baseline's steps per second,"
        " and no node is named: look for what changed on all nodes."
    )
    if len(below) > 1:
        are = "is below its" if len(below) == 2 else "are below their"
        words += f" {_count(len(below) - 1, 'more run')} {are} baseline."
    return words


def _open(findings: list[FindingRow], about: list[RunRow], answer: Answer) -> Said:
    first = findings[0]
    row = next((row for row in about if row.run == first.run), None)
    words = _with_run(_finding_sentence(first), row, about)
    if len(findings) > 1:
        is_open = "is" if len(findings) == 2 else "are"
        words += f" {_count(len(findings) - 1, 'more finding')} {is_open} open."
    return Said(words + _silent(answer), first.severity)


def _silent(answer: Answer) -> str:
    silent = answer.nodes[0] - answer.nodes[1]
    return f" {silent:,} of {answer.nodes[0]:,} nodes do not answer." if silent > 0 else ""


def _over(ranked: list[FindingRow], about: list[RunRow]) -> Said:
    """Of recorded runs: who held them back, though nothing goes on any more."""
    first = ranked[0]
    row = next((row for row in about if row.run == first.run), None)
    words = _with_run(_finding_sentence(first), row, about)
    held = len({finding.run for finding in ranked})
    if len(about) > 1:
        was = "was" if held == 1 else "were"
        words = (
            f"{held:,} of {_count(len(about), 'run')} {was} held back. The worst, from"
            f" {utc(first.since)} on: {words}"
        )
    return Said(words, first.severity)


def _finding_sentence(finding: FindingRow) -> str:
    who = finding.node or finding.link or "Somebody"
    return finding.sentence or f"{who} holds run {finding.run} back: {finding.cause}."


def _nobody(runs: Sequence[RunRow], answer: Answer) -> Said:
    if runs:
        newest = max(runs, key=lambda row: row.span.end)
        return Said(
            f"No run goes on now; the newest of {_count(len(runs), 'run')} in this range is"
            f" {newest.run} ({newest.state}).{_silent(answer)}",
            Severity.NOTE,
        )
    if answer.live:
        return Said(
            f"No run is known to {answer.name} in this range, so there is nothing to hold back."
            " Start one, look at a longer range, or see on Data health who does not answer.",
            Severity.UNKNOWN,
        )
    return Said(
        f"No run is known to {answer.name}, so there is nothing to hold back. Make one:",
        Severity.UNKNOWN,
        "lockstep run gpt",
    )


def _doubts(about: list[RunRow], answer: Answer, fleet: FleetSnapshot | None) -> list[str]:
    """Why "nothing is wrong" cannot be said."""
    doubts = []
    unread = sum(row.status is None for row in about)
    unsure = sum(row.status not in (None, "healthy") for row in about)
    silent = answer.nodes[0] - answer.nodes[1]
    if unread:
        was = "was" if unread == 1 else "were"
        doubts.append(f"{unread:,} of {_count(len(about), 'run')} {was} not analyzed")
    if unsure:
        doubts.append(f"the verdict is unknown for {unsure:,} of {_count(len(about), 'run')}")
    if silent > 0:
        doubts.append(f"{silent:,} of {_count(answer.nodes[0], 'node')} do not answer")
    if answer.live:
        doubts += _live_doubts(about, answer, fleet)
    return doubts


def _live_doubts(about: list[RunRow], answer: Answer, fleet: FleetSnapshot | None) -> list[str]:
    """What is old, not whole, or told of no rank: of a live source it may be wrong by now."""
    doubts = []
    if answer.at is None or is_stale(answer):
        doubts.append(f"the newest number is {age(answer)} old")
    if answer.nodes[0] <= 0:
        doubts.append("no node is known that should answer")
    if answer.missing:
        doubts.append(f"not found: {'; '.join(answer.missing)}")
    if fleet is None:
        return [*doubts, "no rank's own time was reported"]
    mine = np.isin(fleet.runs, [row.run for row in about])
    ranks = max(int(mine.sum()), sum(row.ranks for row in about))
    unknown = ranks - int((mine & np.isfinite(fleet.values)).sum())
    if unknown > 0 or not ranks:
        doubts.append(f"the own time of {unknown:,} of {_count(ranks, 'rank')} is unknown")
    return doubts


def _with_run(words: str, row: RunRow | None, about: list[RunRow]) -> str:
    """Of several runs it must be told which."""
    return f"Run {row.run}: {words}" if row is not None and len(about) > 1 else words


def _age(answer: Answer) -> str:
    if not answer.live or answer.at is None:
        return ""
    return f"; looked at {cell(max(answer.now - answer.at, 0.0), 'seconds')} ago"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _analyze(row: RunRow) -> str:
    return f"lockstep analyze {shlex.quote(row.folder)}"


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
    analyzed = [row for row in runs if row.lost_gpu_hours is not None]
    spent = lost(sum(row.lost_gpu_hours or 0.0 for row in analyzed) if analyzed else None)
    more = (slowest or 1.0) - 1.0
    return (
        Number("Runs active" if answer.live else "Runs", f"{len(about):,}",
               help="For a live source the active runs; for archives all."),
        _gpus(fleet, findings, about) if answer.live else _named(findings, about),
        Number("Worst slowdown", cell(slowest, "ratio"),
               f"{more:+.0%} step time" if more >= 0.005 else _of_known(about), more >= 0.005,
               "Step time over the step time without the culprits, of the slowest run with a known"
               " value; 1.00x is as it should be."),
        Number(*spent, help="GPU time that was lost to culprits, in the"
                            f" {len(analyzed):,} analyzed runs of this range."),
        _useful(analyzed),
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
    places = {
        (finding.run, finding.node, finding.gpu, finding.rank, finding.link) for finding in findings
    }
    runs = len({finding.run for finding in findings})
    judged = {*_judged(about), *(finding.run for finding in findings)}
    if about and not judged:
        return Number("Places named", UNKNOWN, help="These runs were not judged.")
    return Number(
        "Places named", f"{len(places):,}", f"in {runs:,} of {len(about):,} runs" if places else "",
        bool(places), "Nodes, GPUs, ranks and links that any finding of these runs names, each"
        " once a run.",
    )  # fmt: skip


def _counted(findings: Sequence[FindingRow], about: Sequence[RunRow], answer: Answer) -> Number:
    """Of what goes on the open ones; of recorded runs all there were."""
    words = "The table below lists each."
    if about and not findings and not _judged(about):
        return Number("Open findings" if answer.live else "Findings", UNKNOWN,
                      help="These runs were not judged.")  # fmt: skip
    still_open = sum(finding.open for finding in findings)
    if not (answer.live or still_open):
        return Number("Findings", f"{len(findings):,}", "", bool(findings), words)
    seen = f"of {len(findings):,} seen" if len(findings) > still_open else ""
    return Number("Open findings", f"{still_open:,}", seen, still_open > 0, words)


def _gpus(
    fleet: FleetSnapshot | None, findings: Sequence[FindingRow], about: Sequence[RunRow]
) -> Number:
    words = (
        "GPUs (or ranks on CPU) whose own time is known, whose run was judged, and that no open"
        " finding names; out of all that are known. Without a reported own time the health of a GPU"
        " is unknown; an idle one is not judged."
    )
    if fleet is None or not len(fleet.values):
        return Number("Healthy GPUs", UNKNOWN, help=words)
    label = "Healthy GPUs" if (fleet.gpus >= 0).any() else "Healthy ranks"
    idle = (fleet.runs == "") & ~np.isin(fleet.nodes, list(fleet.silent))
    known = np.isfinite(fleet.values) & np.isin(fleet.runs, _judged(about))
    named = np.zeros(len(known), dtype=bool)
    for finding in findings:
        if finding.open and finding.node:
            here = fleet.nodes == finding.node
            if finding.gpu is not None:
                here &= fleet.gpus == finding.gpu
            elif finding.rank is not None:
                here &= fleet.ranks == finding.rank
            named |= here
    unknown, at_rest = int((~(known | idle | named)).sum()), int((idle & ~named).sum())
    total = f"of {len(known):,}" + (f", {at_rest:,} idle" if at_rest else "")
    total += f", {unknown:,} unknown" if unknown else ""
    value = f"{int((known & ~named).sum()):,}" if known.any() or named.any() else UNKNOWN
    return Number(label, value, total, bool(named.any()), words)


def _useful(rows: Sequence[RunRow]) -> Number:
    words = (
        "Share of the GPU time of the analyzed runs that was not lost to culprits. Restarts,"
        " evaluations and waits are not counted here; Runs says how much was useful, and"
        " where the rest went."
    )
    spent = sum(row.ranks * row.span.seconds for row in rows) / HOUR
    if not spent > 0:
        return Number("Not lost to culprits", UNKNOWN, help=words)
    share = max(0.0, 1.0 - sum(row.lost_gpu_hours or 0.0 for row in rows) / spent)
    return Number("Not lost to culprits", cell(share, "share"), help=words)
