"""What a report rests on: coverage, files, what was emulated, how to repeat it, the glossary."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.figures import cell
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.series import Spans, rest, shown
from lockstep.analyzer.shapes.run import Grid, Run, Verdict
from lockstep.collector.contract.visible import masked

GLOSSARY: dict[str, str] = {
    "rank": "One process of the run, numbered over all nodes.",
    "step": "One optimizer step; all ranks take it together.",
    "own time": "The part of a step that a rank spends outside collectives.",
    "collective": "A communication in which ranks wait for each other, such as an all-reduce.",
    "waiting": "Time from arriving at a collective to its completion; the late rank waits least.",
    "peers": "The ranks that do the same work as the one in question.",
    "slowdown": "For a rank: its own time over its expected own time. For the run: its step time"
    " over the step time without the culprits.",
    "onset": "The first step at which the trouble shows.",
    "tier": "page: certain and costly enough to wake someone; record: worth a note.",
    "confidence": "Probability, given the telemetry that answered: in the place, that it is this"
    " rank, node or link; in the cause, that it is why, if that is the place.",
    "coverage": "Share of the expected windows and ranks that answered.",
    "entropy rate": "The lowest loss that any honest model can reach on this data.",
}


def completeness(run: Run, grid: Grid, verdict: Verdict, cut: Spans, inputs: ReportInputs) -> Block:
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
    missing = dict.fromkeys((*run.missing, *grid.missing, *verdict.missing, *inputs.missing))
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


def files(inputs: ReportInputs) -> Block | None:
    """The section on the archive's files and the trace; None where nobody looked."""
    rows = [[file.name, file.size, file.sha256] for file in inputs.files]
    if inputs.trace is not None:
        rows.append([inputs.trace.name, inputs.trace.size, inputs.trace.sha256])
    if not rows and not inputs.trace_told:
        return None
    return blocks.section(
        "files",
        "Files",
        [
            blocks.text(_trace(inputs)) if inputs.trace_told else None,
            blocks.table("What the numbers were read from, and what was made",
                         {"file": "", "size": "bytes", "SHA-256": ""}, rows, collapsed=True),
        ],
    )  # fmt: skip


def _trace(inputs: ReportInputs) -> str:
    if inputs.trace is None:
        return f"No timeline of the operations: {inputs.trace_told}."
    size = cell(inputs.trace.size, "bytes")
    return (
        f"{inputs.trace.name} ({size}) beside this report shows {inputs.trace_told}; open it at"
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


def people(written: Mapping[str, str]) -> Block:
    """The section that people write: lessons, review, and blocks of their own names."""
    names = [name for name in written if name != "actions"]
    return blocks.section(
        "people",
        "Lessons and review",
        [
            blocks.text(
                "People write here, in report.md between the comments; making the report again"
                " keeps it and brings it into the page. No blame: hardware and settings, not"
                " people."
            ),
            *(blocks.human(name, written[name]) for name in names),
        ],
    )


def words() -> Block:
    """The glossary."""
    rows: list[list[Any]] = [list(pair) for pair in GLOSSARY.items()]
    return blocks.section(
        "glossary", "Words", [blocks.table("Words", {"word": "", "meaning": ""}, rows)]
    )


REAL = (
    "Processes, gradients, optimizer, data loading, collectives over gloo, this machine's CPU"
    " and memory, and every time that was recorded."
)
EMULATED_NODES = (
    "The nodes share one machine: each has its own rank process and its own collector, and they"
    " compete for the same processors."
)
EMULATED_DEVICES = (
    "Each compute segment does its arithmetic and then waits for the deadline of an emulated"
    " device ({milliseconds:g} ms a step at least, noise {noise:g} %). A device fault lengthens"
    " that time."
)
SIMULATED_GPU = (
    "GPU temperature, clocks, power and throttle time come from a model of a GPU that is driven"
    " by the emulated device. No hardware was hot."
)


def reality(meta: Mapping[str, Any], provenance: Sequence[str]) -> Block:
    """The section that says what may be believed literally.

    Args:
        meta: `run.json`; without a spec (a run of someone's own) nothing is known to be emulated.
        provenance: What the analyzer says about the origin of its input.
    """
    spec = meta.get("spec") or {}
    boxes = []
    if spec:
        boxes.append(blocks.callout("real", REAL))
    if spec.get("launcher") == "local":
        boxes.append(blocks.callout("emulated", EMULATED_NODES))
    if spec.get("pace"):
        words = EMULATED_DEVICES.format(
            milliseconds=1e3 * spec.get("device_seconds", 0.0),
            noise=1e2 * spec.get("device_noise", 0.0),
        )
        boxes.append(blocks.callout("emulated", words))
        boxes.append(blocks.callout("simulated", SIMULATED_GPU))
    notes = [blocks.text(each) for each in provenance if not boxes]
    return blocks.section("reality", "Real, emulated, simulated", [*boxes, *notes])
