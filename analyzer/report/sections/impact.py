"""What it cost: time, GPU-hours, money, steps done twice; and where the rank-seconds went."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.ledger.starting import PARTS
from lockstep.analyzer.ledger.words import sentence, spoken_part
from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.sections.what_if import fix_words, what_if
from lockstep.analyzer.report.series import MOST_CULPRITS, Spans, median
from lockstep.analyzer.shapes.run import Grid, Run, Verdict
from lockstep.analyzer.shapes.windows import COLUMNS

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


OF_RUN = "slowdown of the run"
NOT_KNOWN = "unknown"


def impact(
    run: Run,
    grid: Grid,
    verdict: Verdict,
    cut: Spans,
    sources: Sources,
    unit: str = "gpu hours",
) -> Block:
    """The section on impact and cost; `unit` is that of what is lost (report.figures)."""
    wall, step_query = grid.time["wall"], sources.wall()
    rows: list[list[str]] = []
    if cut.onset is not None:
        before, during = (_step_time(wall[windows]) for windows in (cut.before, cut.during))
        rows.append(["step time before the onset, median", before, step_query])
        rows.append(["step time during the trouble, median", during, step_query])
    else:
        rows.append(["step time, median", _step_time(wall[cut.during]), step_query])
    rows.append([OF_RUN, _with_interval(verdict), _verdict("slowdown")])
    for culprit in verdict.culprits[:MOST_CULPRITS]:
        # Links and racks have no time of their own, and who stopped is not slow.
        if culprit.scope not in ("link", "rack") and culprit.slowdown is not None:
            slowdown = figures.cell(culprit.slowdown, "ratio")
            rows.append([f"slowdown of {culprit.who} itself", slowdown, sources.own()])
    if verdict.culprits:
        held = figures.cell(len(cut.peers), "count")
        rows.append(["healthy ranks held up", held, _verdict("culprits")])
    rows += [[*pair, _verdict("lost_gpu_hours")] for pair in losses(verdict, unit)]
    rows += _whole_run(grid, verdict)
    if replayed := _replayed(run):
        again = figures.cell(replayed, "count")
        rows.append(["steps done again after restarts", again, "steps.parquet: step by attempt"])
    columns = {"what": "", "how much": "", "query": ""}
    table = blocks.table("Impact", columns, rows)
    return blocks.section("impact", "Impact and cost", [table, *what_if(verdict)])


def _step_time(wall: np.ndarray) -> str:
    return figures.cell(median(wall), "seconds")


def _verdict(key: str) -> str:
    return f"verdict.json: {key}"


def _unknown(verdict: Verdict) -> bool:
    """Whether nobody can say that nothing was lost: a nought would read as all is well."""
    return verdict.status == "unknown" and not verdict.culprits


def _with_interval(verdict: Verdict) -> str:
    if _unknown(verdict):
        return NOT_KNOWN
    words = figures.cell(verdict.slowdown, "ratio")
    if verdict.slowdown_interval is None or not np.isfinite(verdict.slowdown_interval).all():
        return words
    low, high = verdict.slowdown_interval
    return f"{words} (95 % interval {low:.2f} to {high:.2f})"


def _whole_run(grid: Grid, verdict: Verdict) -> list[list[str]]:
    """Wall time lost, and the share of it that the culprits left."""
    ended, began = grid.end[np.isfinite(grid.end)], grid.start[np.isfinite(grid.start)]
    if verdict.lost_gpu_hours is None or not ended.size or not began.size or not grid.ranks:
        return []
    lost = verdict.lost_gpu_hours * 3600.0 / len(grid.ranks)
    # A stop comes after the last step.
    lasted = float(ended.max() - began.min()) + (lost if verdict.hang is not None else 0.0)
    if lasted <= 0 or not 0 <= lost <= lasted:
        return []
    query = "verdict.json: lost_gpu_hours over ranks; steps.parquet: start, wall_seconds"
    return [
        ["wall time lost", figures.cell(lost, "seconds"), query],
        ["time not lost to the culprits", figures.cell(1 - lost / lasted, "share"), query],
    ]


def _replayed(run: Run) -> int:
    """Steps that more than one attempt did."""
    if run.windows.empty or run.windows["attempt"].nunique() < 2:
        return 0
    step, attempt = run.windows["from_step"], run.windows["attempt"]
    attempts = run.windows.assign(step=step, attempt=attempt).groupby("step")["attempt"].nunique()
    return int((attempts - 1).clip(lower=0).sum())


def costs(verdict: Verdict, unit: str = "gpu hours") -> list[list[str]]:
    """What it cost in a few rows of words and figures, and what would come back without it."""
    rows = [[OF_RUN, _with_interval(verdict)]] if verdict.hang is None else []
    rows += losses(verdict, unit)
    for fix in verdict.what_if.get("fixes", ())[:1]:
        rows.append([*fix_words(fix)])
    return rows


def losses(verdict: Verdict, unit: str = "gpu hours") -> list[list[str]]:
    """GPU-hours, and money where a price was given; what was not slow loses nothing a day."""
    if _unknown(verdict):
        return [["lost", NOT_KNOWN]]
    rows = [["lost", _between(verdict.lost_gpu_hours, verdict.lost_gpu_hours_interval, unit)]]
    if verdict.lost_money is not None:
        money = _between(verdict.lost_money, verdict.lost_money_interval, "money")
        rows.append(["lost, at the price given", money])
    daily = verdict.lost_per_day
    if daily is None:
        return rows
    since = f"as in its last {figures.cell(daily['over_seconds'], 'seconds')}"
    when = "if it goes on" if daily["goes_on"] else "had it gone on"
    rows.append(
        [f"lost a day {when}, {since}", _between(daily["gpu_hours"], daily["interval"], unit)]
    )
    if daily["money"] is not None:
        money = _between(daily["money"], daily["money_interval"], "money")
        rows.append([f"lost a day {when}, at the price given", money])
    return rows


def _between(value: Any, interval: Sequence[float] | None, unit: str) -> str:
    words = figures.cell(value, unit)
    if interval is None or not np.isfinite(interval).all() or interval[0] == interval[1]:
        return words
    low, high = (figures.cell(bound, unit) for bound in interval)
    # A unit that both have is told once.
    low = low.removesuffix(f" {high.rpartition(' ')[2]}")
    return f"{words} (95 % interval {low} to {high})"


def where_time_went(diagnosis: "Diagnosis") -> Block | None:
    """The section with the ledger of the archive; None where nothing is known of its time."""
    windows = diagnosis.run.windows
    if not len(windows) or not set(COLUMNS) <= set(windows):
        return None
    attempt = attempt_of(diagnosis)
    told = ledger([attempt])
    if not told.rank_seconds > 0:
        return None
    rows: list[list[object]] = []
    parts = {part: seconds or 0.0 for part, seconds in told.parts().items()}
    for row in BUCKETS:
        seconds = told.of(row.bucket)
        if not seconds > 0:
            continue
        rows.append([row.title, seconds, seconds / told.rank_seconds, row.source])
        if row.bucket is Bucket.STRAGGLER:
            rows += [
                [f"of it {one.who}, {one.cause}", one.seconds, one.seconds / told.rank_seconds,
                 "verdict.json: culprits"]
                for one in told.stragglers
            ]  # fmt: skip
        if row.bucket is Bucket.STARTING:
            rows += [
                [f"of it {spoken_part(each.part)}", parts[each.part],
                 parts[each.part] / told.rank_seconds, each.source]
                for each in PARTS if parts[each.part]
            ]  # fmt: skip
    columns = {"where": "", "rank-seconds": "seconds", "share": "share", "source": ""}
    what = "span" if attempt.span else "attempt"
    whole = "the span that was read" if attempt.span else "wall time"
    words = f"{sentence(told)}. All buckets sum to {whole} times ranks."
    if attempt.span:
        words += " What came before and after it is not in it."
    return blocks.section(
        "ledger", "Where the time went",
        [blocks.text(words), blocks.table(f"Ledger of this {what}", columns, rows)],
    )  # fmt: skip
