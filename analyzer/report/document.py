"""A Diagnosis as one JSON tree: report.json, from which the other formats are rendered."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from analyzer.report import blocks, figures
from analyzer.report.advice import advice
from analyzer.report.blocks import Block
from analyzer.report.deviations import deviations
from analyzer.report.glossary import GLOSSARY
from analyzer.report.health import health
from analyzer.report.learning import learning
from analyzer.report.losses import losses
from analyzer.report.reality import reality
from analyzer.report.reasons import reasons
from analyzer.report.spans import Spans, median, spans
from analyzer.report.timeline import bounds, timeline
from analyzer.report.timing import lateness
from analyzer.report.what_if import what_if
from analyzer.run import Culprit, Grid, Run, Verdict
from analyzer.verdict_json import verdict_json

if TYPE_CHECKING:
    from analyzer.attribute import Diagnosis

SCHEMA_VERSION = 1
_NOBODY = {
    "healthy": "Nobody holds this run back",
    "degraded": "The run is slow, and no rank is to blame",
    "unknown": "Nobody can be named",
}


def document(diagnosis: "Diagnosis", now: float | None = None) -> dict[str, Any]:
    """The report as a tree of JSON types with a fixed order of keys.

    Args:
        diagnosis: What was found.
        now: Unix time of making; None = the end of the run, so that the same archive always gives
            the same bytes.
    """
    run, grid, verdict = diagnosis.run, diagnosis.grid, diagnosis.verdict
    cut = spans(grid, verdict)
    begin, end = bounds(grid)
    made = end if now is None else now
    emulated = (run.meta.get("spec") or {}).get("launcher") == "local"
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run.name,
        "generated_at": None if made is None else figures.iso(made),
        "version": _version(),
        "status": verdict.status,
        "title": title(verdict),
        "sentence": verdict.sentence,
        "facts": [
            {"name": name, "value": value, "unit": unit}
            for name, value, unit in _facts(run, grid, verdict, begin, end)
        ],
        "sections": [
            reality(run.meta, verdict.provenance),
            _impact(grid, verdict, cut),
            timeline(grid, verdict),
            lateness(grid, cut),
            reasons(diagnosis),
            health(grid, cut),
            *deviations(verdict),
            learning(run, grid, cut),
            advice(verdict, emulated=emulated),
            _completeness(run, grid, verdict),
            _reproduction(run),
            blocks.section(
                "glossary",
                "Words",
                [blocks.table("Words", {"word": "", "meaning": ""}, list(GLOSSARY.items()))],
            ),
        ],
        "verdict": verdict_json(verdict),
    }


def title(verdict: Verdict) -> str:
    """The verdict as a heading: who and why, without figures that need a unit."""
    if not verdict.culprits:
        return _NOBODY[verdict.status]
    stopped = verdict.hang is not None
    return "; ".join(_charge(culprit, stopped=stopped) for culprit in verdict.culprits)


def _charge(culprit: Culprit, *, stopped: bool) -> str:
    who = f"{culprit.who[0].upper()}{culprit.who[1:]}"
    who += "" if culprit.rank is None else f" on {culprit.node}"
    how = "stopped" if stopped else "holds the run back"
    how = how if culprit.slowdown is None else f"is {culprit.slowdown:.2f}x slower"
    return f"{who} {how}: {culprit.cause}"


def _facts(
    run: Run, grid: Grid, verdict: Verdict, begin: float | None, end: float | None
) -> list[tuple[str, Any, str]]:
    nodes = {info.node for info in grid.ranks}
    steps = int(grid.to_step.max() - grid.from_step.min()) if grid.from_step.size else 0
    return [
        ("slowdown of the run", verdict.slowdown, "ratio"),
        ("lost", verdict.lost_gpu_hours, "gpu hours"),
        ("ranks", len(grid.ranks), "count"),
        ("nodes", len(nodes), "count"),
        ("steps seen", steps, "count"),
        ("began", begin, "time"),
        ("lasted", None if begin is None or end is None else end - begin, "seconds"),
        ("coverage", verdict.coverage, "share"),
    ]


def _impact(grid: Grid, verdict: Verdict, cut: Spans) -> Block:
    wall = grid.time["wall"]
    rows: list[list[Any]] = []
    if cut.onset is not None:
        before = median(wall[cut.before])
        during = median(wall[cut.during])
        rows.append(["step time before the onset, median", figures.cell(before, "seconds")])
        rows.append(["step time during the trouble, median", figures.cell(during, "seconds")])
    else:
        rows.append(["step time, median", figures.cell(median(wall[cut.during]), "seconds")])
    rows.append(["slowdown of the run", _with_interval(verdict)])
    for culprit in verdict.culprits:
        if culprit.scope not in ("link", "rack"):  # which have no time of their own
            slowdown = figures.cell(culprit.slowdown, "ratio")
            rows.append([f"slowdown of {culprit.who} itself", slowdown])
    if verdict.culprits:
        rows.append(["healthy ranks held up", figures.cell(len(cut.peers), "count")])
    rows += losses(verdict)
    table = blocks.table("Impact", {"what": "", "how much": ""}, rows)
    return blocks.section("impact", "Impact and cost", [table, *what_if(verdict)])


def _with_interval(verdict: Verdict) -> str:
    words = figures.cell(verdict.slowdown, "ratio")
    if verdict.slowdown_interval is None or not np.isfinite(verdict.slowdown_interval).all():
        return words
    low, high = verdict.slowdown_interval
    return f"{words} (95 % interval {low:.2f} to {high:.2f})"


def _completeness(run: Run, grid: Grid, verdict: Verdict) -> Block:
    own = np.isfinite(grid.time["own"])
    rows = [
        [info.rank, info.node, int(own[:, column].sum()), len(grid.from_step), until]
        for (column, info), until in zip(
            enumerate(grid.ranks), grid.scraped_until.tolist(), strict=True
        )
    ]
    for row in rows:
        row[4] = row[4] if np.isfinite(row[4]) else None
    columns = {"rank": "", "node": "", "windows answered": "count", "expected": "count"}
    columns["last scrape"] = "time"
    missing = list(dict.fromkeys((*run.missing, *grid.missing, *verdict.missing)))
    return blocks.section(
        "completeness",
        "Can these numbers be trusted",
        [
            blocks.text(
                f"Coverage {verdict.coverage * 100:.0f} %;"
                f" {int(grid.masked.sum())} windows were left out because their steps are slow"
                " by design (warm-up, garbage collection, checkpoint, evaluation)."
            ),
            blocks.table("What answered", columns, rows),
            blocks.table("What was missing", {"missing": ""}, [[each] for each in missing]),
        ],
    )


def _reproduction(run: Run) -> Block:
    words = run.meta.get("command")
    versions = run.meta.get("versions")
    rows = sorted(versions.items()) if isinstance(versions, dict) else []
    return blocks.section(
        "reproduce",
        "Make it again",
        [
            blocks.code(words) if words else blocks.text("run.json holds no command to repeat."),
            blocks.text(
                "What was injected, if anything, stands in truth.json, which no analysis reads."
            ),
            blocks.table("Versions", {"what": "", "version": ""}, rows),
        ],
    )


def _version() -> str:
    try:
        return version("lockstep-monitor")
    except PackageNotFoundError:  # a checkout that was never installed
        return "uninstalled"
