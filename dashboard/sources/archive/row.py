"""One run as lists show it: from run.json and what was written beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.archive.files import (
    ArchiveError,
    Files,
    moment,
    number,
    part,
    run_id,
    whole,
)
from lockstep.collector.contract import archive
from lockstep.collector.contract.visible import masked
from lockstep.dashboard.shapes import RunRow, Span
from lockstep.dashboard.sources import notes
from lockstep.dashboard.trouble import TroubleError

STATES = {"finished": "ended", "crash": "failed", "hang": "hung", "interrupted": "stopped"}
"""Word of lockstep.workloads.launch.launcher.Ending -> of RunRow."""
LIVE_SECONDS = 60.0
"""A run without an end goes on while its last word is younger: twelve parts of 5 s."""


def row(files: Files, meta: Mapping[str, Any], span: Span, now: float) -> RunRow:
    """The run of an archive; what cannot be read of it is not known.

    Args:
        files: Of the archive.
        meta: Its run.json.
        span: From when until when something is known of it.
        now: Unix seconds.
    """
    try:
        verdict = files.verdict() or {}
    except ArchiveError:
        verdict = {}
    layout = part(meta, "layout")
    degrees = [f"{name}={whole(layout.get(name))}" for name in ("dp", "pp", "tp")
               if whole(layout.get(name)) is not None]  # fmt: skip
    nodes, each = whole(layout.get("nodes")) or 0, whole(layout.get("ranks_per_node")) or 0
    culprits = verdict.get("culprits")
    return RunRow(
        run=run_id(meta, files.folder), state=state(meta, span, now), span=span,
        workload=text(meta.get("workload")), nodes=nodes,
        ranks=whole(layout.get("world")) or nodes * each, layout=" ".join(degrees),
        status=verdict.get("status"), sentence=verdict.get("sentence"),
        slowdown=number(verdict.get("slowdown")),
        lost_gpu_hours=number(verdict.get("lost_gpu_hours")),
        culprits=len(culprits) if isinstance(culprits, list) else 0,
        folder=str(files.folder),
        report=files.inside(f"{archive.REPORT_STEM}.html") is not None,
        provenance=provenance(meta, verdict), tags=notes.read(files.folder).tags,
        command=masked(text(meta.get("command"))), name=text(meta.get("name")),
    )  # fmt: skip


def state(meta: Mapping[str, Any], span: Span, now: float) -> str:
    """Word of RunRow; `unknown` = run.json has no end, and nothing was written for long."""
    ending = part(meta, "outcome").get("ending")
    if isinstance(ending, str):
        return STATES.get(ending, "unknown")
    if moment(meta.get("ended")) is not None:
        return "ended"
    return "running" if 0 <= now - span.end < LIVE_SECONDS else "unknown"


def unreadable(folder: Path, trouble: TroubleError, changed: float) -> RunRow:
    """An archive that lists name although it cannot be read.

    Args:
        folder: Its folder.
        trouble: Why.
        changed: Unix seconds of the folder's last change.
    """
    return RunRow(
        run=run_id({}, folder), state="unknown", span=Span(changed, changed),
        sentence=f"This archive cannot be read: {trouble.sentence}", folder=str(folder),
    )  # fmt: skip


def provenance(meta: Mapping[str, Any], verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """What was emulated or simulated, in the words of the verdict."""
    provenance = verdict.get("provenance")
    words = (
        [text for text in provenance if isinstance(text, str)]
        if isinstance(provenance, list)
        else []
    )
    if meta.get("emulated_devices") is True:
        words.append("emulated devices")
    simulated = meta.get("simulated")
    if isinstance(simulated, list):
        words += [
            "simulated GPU telemetry" if what == "gpu telemetry" else f"simulated {text(what)}"
            for what in simulated
        ]
    return tuple(dict.fromkeys(words))


def text(value: object) -> str:
    """A text of a foreign file, in one line and bounded; empty where it is none."""
    if not isinstance(value, str):
        return ""
    return "".join(each if each.isprintable() else " " for each in value[:1000])
