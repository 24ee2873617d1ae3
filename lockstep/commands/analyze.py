"""`lockstep analyze`: who holds the run back, and why, as a verdict and an exit code."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.contract.visible import visible_line
from lockstep import (
    diagnosis,
    hardware_only,
    output,
    prometheus_diagnosis,
    recurrence,
    trace_diagnosis,
    watched_diagnosis,
)
from lockstep import timeline as timelines
from lockstep.output import Format

if TYPE_CHECKING:
    from analyzer.run import Culprit, Verdict


def analyze(
    archive: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Archive of the run.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="OPS.parquet", help="Operations of any run, in the public schema."),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(metavar="dp=D,pp=P,tp=T", help="With --trace: its layout.")
    ] = None,
    meta: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --trace: its meta file (dp_size: 4).")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Prometheus that recorded the run.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help="With --prometheus: the run's id.")
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="NODE:0-7,...", help="With --prometheus, instead of --run: a job's GPUs."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="T", help="With --prometheus: a date, or how long ago, as 90m."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="T", help="With --prometheus: likewise.")
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="topology.toml, the leaf and rack of nodes."),
    ] = None,
    node_label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL", help="With --prometheus: node label that is the leaf or the rack."
        ),
    ] = None,
    push_down: Annotated[
        bool | None,
        typer.Option(
            "--push-down/--no-push-down",
            help="With --prometheus: read what its rules single out only; default for large runs.",
        ),
    ] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the operations for ui.perfetto.dev."),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="With --timeline: which steps, B exclusive."),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Write verdict.json into the archive.")
    ] = True,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a GPU-hour, for the cost.")
    ] = None,
) -> int:
    """Name the culprit rank, GPU and node of a run, with the evidence.

    Exits 0 healthy, 1 a warning that names nobody (all ranks slower alike, or hardware that
    deviates), 2 a culprit was named, 3 unknown or too little data.

    The run is an archive, a trace of its operations, or what a Prometheus recorded: its
    credentials come from LOCKSTEP_PROMETHEUS_TOKEN, or LOCKSTEP_PROMETHEUS_USER and
    LOCKSTEP_PROMETHEUS_PASSWORD.

    Example: lockstep analyze runs/gpt-20261120T101500-3f2a -o json
    """
    from analyzer.verdict_json import verdict_json

    if topology is not None and archive is None and prometheus is None:
        raise typer.BadParameter("--topology goes with the archive DIR of a run, or --prometheus")
    chosen = timelines.parse(steps)
    if chosen is not None and timeline is None:
        raise typer.BadParameter("--steps goes with --timeline FILE")
    if trace is not None:
        if any(each is not None for each in (archive, prometheus, run, gpus, since, until)):
            raise typer.BadParameter("--trace goes without DIR and without --prometheus")
        verdict = _traced(trace, layout, meta, form, gpu_hour_price)
        if timeline is not None:
            shown = trace_diagnosis.read_trace(trace, layout, meta)
            timelines.write(timeline, shown, chosen, verdict.culprits)
        return diagnosis.exit_code(verdict)
    if layout is not None or meta is not None:
        raise typer.BadParameter("--layout and --meta go with --trace OPS.parquet")
    if prometheus is not None:
        if archive is not None:
            raise typer.BadParameter("give the archive DIR or --prometheus URL, not both")
        if gpus is not None:
            if run is not None or timeline is not None:
                raise typer.BadParameter("--gpus goes without --run and without --timeline")
            alone = hardware_only.diagnose_hardware(prometheus, gpus, since, until)
            output.document(verdict_json(alone), form, table(alone))
            return diagnosis.exit_code(alone)
        if run is None:
            raise typer.BadParameter("--prometheus needs --run ID, or --gpus")
        diagnosed = prometheus_diagnosis.diagnose_prometheus(
            prometheus, run, since, until, gpu_hour_price,
            push_down=push_down, topology=topology, node_labels=node_label or (),
        )  # fmt: skip
    elif any(each is not None for each in (run, gpus, since, until)):
        raise typer.BadParameter("--run, --gpus, --since and --until go with --prometheus URL")
    elif push_down is not None or node_label:
        raise typer.BadParameter("--push-down and --node-label go with --prometheus URL")
    elif archive is None:
        raise typer.BadParameter(
            "give the archive DIR of a run, --trace FILE, or --prometheus URL --run ID"
        )
    else:
        found = watched_diagnosis.diagnose_watched(archive, gpu_hour_price, topology)
        diagnosed = recurrence.with_recurrence(found, archive)
    verdict = diagnosed.verdict
    if write and archive is not None:
        try:
            diagnosis.write_verdict(verdict, archive)
        except OSError as error:
            output.note(f"lockstep: verdict.json was not written: {error}")
    output.document(verdict_json(verdict), form, table(verdict))
    if timeline is not None:
        timelines.write(timeline, diagnosed.run, chosen, verdict.culprits)
    return diagnosis.exit_code(verdict)


def _traced(
    trace: Path,
    layout: str | None,
    meta: Path | None,
    form: Format,
    gpu_hour_price: float | None,
) -> "Verdict":
    from analyzer.verdict_json import verdict_json

    if layout is not None and meta is not None:
        raise typer.BadParameter("give --layout or --meta, not both")
    verdict = trace_diagnosis.diagnose_trace(trace, layout, meta, gpu_hour_price)
    output.document(verdict_json(verdict), form, table(verdict))
    return verdict


def table(verdict: "Verdict") -> str:
    """The verdict for people: the sentence, the culprits, and what speaks for and against."""
    from analyzer.report.what_if import gives_back

    parts = [output.emphasis(verdict.sentence)]
    if verdict.culprits:
        header = ("rank", "node", "gpu", "from step", "slowdown", "cause", "confidence", "tier")
        parts.append(output.grid(header, [_row(culprit) for culprit in verdict.culprits]))
    for culprit in verdict.culprits:
        facts = [f"{'+' if fact.supports else '-'} {fact.text}" for fact in culprit.evidence]
        parts.append(_listed(f"evidence, {culprit.cause} (+ for, - against):", facts))
    quiet = [each["text"] for each in verdict.anomalies if not each["costs_time"]]
    if quiet:
        parts.append(_listed("hardware that deviates and costs no time yet:", quiet))
    if verdict.alternatives:
        others = (f"{each['cause']} {each['confidence']:.0%}" for each in verdict.alternatives)
        parts.append("alternatives: " + ", ".join(others))
    fixes = verdict.what_if.get("fixes") or ()
    if fixes:
        lines = [
            f"  without {visible_line(each['remove'])}: steps {each['gain']:.1%} shorter"
            f" ({each['by']}, over {each['over']})\n  {gives_back(each)}"
            for each in fixes
        ]
        parts.append("\n".join(["what if:", *lines]))
    if verdict.recurrence:
        parts.append(_listed("before:", [each["text"] for each in verdict.recurrence]))
    if verdict.structure:
        lines = [f"{_share(each['share'])}{each['text']}" for each in verdict.structure]
        parts.append(_listed("by design, nobody's fault:", lines))
    if verdict.rejected:
        lines = [f"rank {each.rank}: {each.why}" for each in verdict.rejected]
        parts.append(_listed("let go:", lines))
    missing = "; missing: " + ", ".join(verdict.missing) if verdict.missing else ""
    parts.append(f"coverage {verdict.coverage:.0%}{missing}")
    return "\n\n".join(parts)


def _listed(title: str, lines: Sequence[str]) -> str:
    """Each text on one line of its own, whatever is in it."""
    return "\n".join([title, *(f"  {visible_line(line)}" for line in lines)])


def _share(share: object) -> str:
    return f"{share:.0%} of the step: " if isinstance(share, float) else ""


def _row(culprit: "Culprit") -> tuple[str, ...]:
    slowdown = "-" if culprit.slowdown is None else f"{culprit.slowdown:.2f}x"
    ids = (culprit.rank, culprit.node, culprit.gpu, culprit.from_step)
    return (
        *("-" if each is None else str(each) for each in ids),
        slowdown,
        culprit.cause,
        f"{culprit.confidence:.0%}",
        culprit.tier,
    )
