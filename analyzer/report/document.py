"""A Diagnosis as one JSON tree: report.json, from which the other formats are rendered."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from lockstep.analyzer.report import figures, human
from lockstep.analyzer.report.inputs import NO_INPUTS, ReportInputs
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.sections.advice import advice
from lockstep.analyzer.report.sections.comparison import comparison
from lockstep.analyzer.report.sections.detection import bounds, detection, finding_times, timeline
from lockstep.analyzer.report.sections.health import health
from lockstep.analyzer.report.sections.impact import impact, where_time_went
from lockstep.analyzer.report.sections.reasons import deviations, reasons
from lockstep.analyzer.report.sections.summary import glance, summary, title
from lockstep.analyzer.report.sections.supporting import (
    completeness,
    files,
    people,
    reality,
    reproduction,
    words,
)
from lockstep.analyzer.report.sections.timing import lateness
from lockstep.analyzer.report.sections.training import learning
from lockstep.analyzer.report.sections.what_if import simulated
from lockstep.analyzer.report.series import spans
from lockstep.analyzer.shapes.run import Grid, Verdict
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.stats.before_after import has_gpu

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis

SCHEMA_VERSION = 1


def document(
    diagnosis: "Diagnosis", inputs: ReportInputs = NO_INPUTS, now: float | None = None
) -> dict[str, Any]:
    """The report as a tree of JSON types with a fixed order of keys.

    Args:
        diagnosis: What was found.
        inputs: What people, the watcher and the archive's folder add.
        now: Unix time of making; None = the end of the run, so that the same archive always gives
            the same bytes.
    """
    run, grid, verdict = diagnosis.run, diagnosis.grid, diagnosis.verdict
    cut, sources = spans(grid, verdict), Sources.of(run.name)
    begin, end = bounds(grid)
    made = end if now is None else now
    seen = None if inputs.finding is None else finding_times(inputs.finding)
    written = human.blocks(inputs.human)
    unit = "gpu hours" if has_gpu(grid, None) else "rank hours"
    emulated = (run.meta.get("spec") or {}).get("launcher") == "local"
    actions = advice(
        verdict, emulated=emulated, owners=written["actions"], without_gpu=_without_gpu(grid)
    )
    sections = [
        glance(grid, verdict, cut, sources, actions, unit),
        actions,
        impact(run, grid, verdict, cut, sources, unit),
        timeline(grid, verdict, seen),
        detection(grid, verdict, diagnosis.findings, seen),
        reasons(verdict),
        lateness(grid, cut, sources, verdict),
        health(grid, cut),
        where_time_went(diagnosis),
        *deviations(verdict),
        learning(run, grid, cut, sources),
        comparison(diagnosis, inputs.baseline) if inputs.baseline else None,
        people(written),
        reality(run.meta, verdict.provenance),
        completeness(run, grid, verdict, cut, inputs),
        files(inputs),
        reproduction(run, sources, inputs.command),
        simulated(verdict),
        words(),
    ]
    tree = {
        "schema_version": SCHEMA_VERSION,
        "run": run.name,
        "generated_at": None if made is None else figures.iso(made),
        "version": _version(),
        "status": verdict.status,
        "review": human.status(written),
        "title": title(verdict),
        "summary": summary(verdict, unit),
        "sentence": verdict.sentence,
        "facts": [
            {"name": name, "value": value, "unit": unit}
            for name, value, unit in _facts(grid, verdict, begin, end, unit)
        ],
        "sections": [section for section in sections if section is not None],
        "verdict": verdict_json(verdict),
    }
    return {key: _printable(value) for key, value in tree.items()}


def _without_gpu(grid: Grid) -> set[str | None]:
    """Nodes none of whose ranks has one."""
    nodes: set[str | None] = {info.node for info in grid.ranks}
    return nodes - {info.node for info in grid.ranks if info.gpu is not None}


def _facts(
    grid: Grid, verdict: Verdict, begin: float | None, end: float | None, unit: str
) -> list[tuple[str, Any, str]]:
    nodes = {info.node for info in grid.ranks}
    steps = int(grid.to_step.max() - grid.from_step.min()) if grid.from_step.size else 0
    return [
        ("slowdown of the run", verdict.slowdown, "ratio"),
        ("lost", verdict.lost_gpu_hours, unit),
        ("ranks", len(grid.ranks), "count"),
        ("nodes", len(nodes), "count"),
        ("steps seen", steps, "count"),
        ("began", begin, "time"),
        ("lasted", None if begin is None or end is None else end - begin, "seconds"),
        ("coverage", verdict.coverage, "share"),
    ]


def _printable(tree: Any) -> Any:
    """The tree without characters that break a file or turn a line round: names are input."""
    if isinstance(tree, dict):
        return {_printable(key): _printable(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_printable(item) for item in tree]
    if isinstance(tree, str) and not tree.isprintable():
        return "".join(item if item.isprintable() or item in "\n\t\u200d" else " " for item in tree)
    return tree


def _version() -> str:
    try:
        return version("lockstep-monitor")
    except PackageNotFoundError:  # a checkout that was never installed
        return "uninstalled"
