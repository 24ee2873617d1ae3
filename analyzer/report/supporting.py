"""What stands behind the report: trust in the data, files, how to do it again, the words."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.beside import Beside
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.figures import cell
from lockstep.analyzer.report.glossary import GLOSSARY
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.shown import rest, shown
from lockstep.analyzer.report.spans import Spans
from lockstep.analyzer.shapes.run import Grid, Run, Verdict
from lockstep.collector.contract.visible import masked


def completeness(run: Run, grid: Grid, verdict: Verdict, cut: Spans, beside: Beside) -> Block:
    """The section on what answered and what was missing."""
    answered = np.isfinite(grid.time["own"]).sum(axis=0)
    until = [float(each) if np.isfinite(each) else None for each in grid.scraped_until]
    picked = shown(cut, answered.astype(np.float64))
    rows = [
        [info.rank, info.node, int(answered[column]), len(grid.from_step), until[column]]
        for column, info in ((column, grid.ranks[column]) for column in picked)
    ]
    columns = {"rank": "", "node": "", "windows answered": "count", "expected": "count"}
    columns["last scrape"] = "time"
    over = rest(cut, picked, answered.astype(np.float64), "count")
    missing = dict.fromkeys((*run.missing, *grid.missing, *verdict.missing, *beside.missing))
    return blocks.section(
        "completeness",
        "Can these numbers be trusted",
        [
            blocks.text(
                f"Coverage {verdict.coverage * 100:.0f} %;"
                f" {int(grid.masked.sum())} windows were left out because their steps are slow"
                " by design (warm-up, garbage collection, checkpoint, evaluation)."
            ),
            blocks.table("What answered", columns, rows,
                         source="steps.parquet: own_seconds; samples.parquet: up"),
            blocks.text(over) if over else None,
            blocks.table("What was missing", {"missing": ""}, [[each] for each in missing]),
        ],
    )  # fmt: skip


def files(beside: Beside) -> Block | None:
    """The section on the archive's files and the trace; None where nobody looked."""
    rows = [[each.name, each.size, each.sha256] for each in beside.files]
    if beside.trace is not None:
        rows.append([beside.trace.name, beside.trace.size, beside.trace.sha256])
    if not rows and not beside.trace_told:
        return None
    return blocks.section(
        "files",
        "Files",
        [
            blocks.text(_trace(beside)) if beside.trace_told else None,
            blocks.table("What the numbers were read from, and what was made",
                         {"file": "", "size": "bytes", "SHA-256": ""}, rows, collapsed=True),
        ],
    )  # fmt: skip


def _trace(beside: Beside) -> str:
    if beside.trace is None:
        return f"No timeline of the operations: {beside.trace_told}."
    size = cell(beside.trace.size, "bytes")
    return (
        f"{beside.trace.name} ({size}) beside this report shows {beside.trace_told}; open it at"
        " ui.perfetto.dev, which reads it in the browser."
    )


def reproduction(run: Run, sources: Sources, command: str = "") -> Block:
    """The section on doing it again: the run, the analysis, the queries.

    Args:
        run: Its own command has no fault, so that no analysis sees one.
        sources: Where the numbers come from.
        command: With what was injected; empty = nobody knows of any.
    """
    words = masked(str(command or run.meta.get("command") or ""))
    versions = run.meta.get("versions")
    rows = sorted(versions.items()) if isinstance(versions, dict) else []
    queries = {
        "own time per step": sources.own(),
        "step time": sources.wall(),
        "waiting per step": sources.waits(),
        "phases of a step": sources.phases(),
        "tokens per second": sources.tokens(),
        "training loss": sources.loss(),
    }
    return blocks.section(
        "reproduce",
        "Make it again",
        [
            blocks.code(words) if words else blocks.text("run.json holds no command."),
            blocks.text(
                "The command has what was injected, if anything was: it stands in truth.json, and"
                " was read after the verdict was made. The command lockstep analyze gives the same"
                " verdict again."
                if command
                else "What was injected, if anything, stands in truth.json, which no analysis"
                " reads. The command lockstep analyze gives the same verdict again."
            ),
            blocks.table("Queries: column of the archive, and PromQL while the run is recorded",
                         {"what": "", "query": ""}, [list(pair) for pair in queries.items()],
                         collapsed=True),
            blocks.table("Versions", {"what": "", "version": ""}, rows, source="run.json"),
        ],
    )  # fmt: skip


def people(told: Mapping[str, str]) -> Block:
    """The section that people write: lessons, review, and blocks of their own names."""
    names = [name for name in told if name != "actions"]
    return blocks.section(
        "people",
        "Lessons and review",
        [
            blocks.text(
                "People write here, in report.md between the comments; making the report again"
                " keeps it and brings it into the page. No blame: hardware and settings, not"
                " people."
            ),
            *(blocks.human(name, told[name]) for name in names),
        ],
    )


def words() -> Block:
    """The glossary."""
    rows: list[list[Any]] = [list(pair) for pair in GLOSSARY.items()]
    return blocks.section(
        "glossary", "Words", [blocks.table("Words", {"word": "", "meaning": ""}, rows)]
    )
