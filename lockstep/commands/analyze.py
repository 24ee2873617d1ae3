"""`lockstep analyze`: who holds the run back, and why, as a verdict and an exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from lockstep.cli.option_groups import grouped
from lockstep.collector.contract.visible import visible_line
from lockstep.diagnose import diagnosis, newest, sources
from lockstep.diagnose import timeline as timelines
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Culprit, Verdict


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The run as a trace of its operations."""

    PANEL: ClassVar = "Instead of an archive: a trace"

    trace: Annotated[
        Path | None,
        typer.Option(metavar="OPS.parquet", help="Operations of any run, in the public schema."),
    ] = None
    layout: Annotated[
        str | None, typer.Option(metavar="dp=D,pp=P,tp=T", help="The layout of its ranks.")
    ] = None
    meta: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its meta file (dp_size: 4), for the layout."),
    ] = None


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """The run as a Prometheus recorded it."""

    PANEL: ClassVar = "Instead of an archive: a Prometheus"

    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Prometheus that recorded the run.")
    ] = None
    run: Annotated[str | None, typer.Option(metavar="ID", help="The run's id.")] = None
    gpus: Annotated[
        str | None,
        typer.Option(metavar="NODE:0-7,...", help="Instead of --run: a job's GPUs."),
    ] = None
    since: Annotated[
        str | None, typer.Option(metavar="T", help="A date, or how long ago, as 90m.")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="T", help="Likewise.")] = None
    node_label: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND=LABEL", help="Node label that is the leaf or the rack."),
    ] = None
    push_down: Annotated[
        bool | None,
        typer.Option(
            "--push-down/--no-push-down",
            help="Read what its rules single out only; default for large runs.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class TimelineOptions:
    """The operations as a file to look at."""

    PANEL: ClassVar = "Timeline"

    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the operations for ui.perfetto.dev."),
    ] = None
    steps: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="With --timeline: which steps, B exclusive."),
    ] = None


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """Of a folder that NCCL Inspector or the flight recorder wrote."""

    PANEL: ClassVar = "Files of NCCL Inspector or the flight recorder"

    transfers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write who sent to whom, as CSV."),
    ] = None


@grouped
def analyze(
    traced_run: TraceOptions,
    recorded_run: PrometheusOptions,
    shown: TimelineOptions,
    collectives: CollectiveOptions,
    archive: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="Archive of the run, or folder of archives."),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="topology.toml, the leaf and rack of nodes."),
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

    Exits 0 healthy, 1 a warning that names no place (all ranks slower alike, or hardware that
    deviates), 2 a culprit was named, 3 unknown or too little data.

    The run is an archive (in a folder of archives the one that ended last), a trace of its
    operations, or the data of a Prometheus. The credentials of Prometheus come from
    LOCKSTEP_PROMETHEUS_TOKEN, or LOCKSTEP_PROMETHEUS_USER and LOCKSTEP_PROMETHEUS_PASSWORD.

    Example: lockstep analyze runs/gpt-20261120T101500-3f2a -o json
    """
    from lockstep.analyzer.shapes.verdict_json import verdict_json

    where, given = recorded_run, _given(recorded_run)
    if collectives.transfers is not None and (archive is None or where.prometheus is not None):
        raise typer.BadParameter("--transfers goes with the folder that NCCL Inspector wrote into")
    if topology is not None and archive is None and where.prometheus is None:
        raise typer.BadParameter("--topology goes with the archive DIR of a run, or --prometheus")
    chosen = timelines.parse(shown.steps)
    if chosen is not None and shown.timeline is None:
        raise typer.BadParameter("--steps goes with --timeline FILE")
    if traced_run.trace is not None:
        if archive is not None or given:
            raise typer.BadParameter("--trace goes without DIR and without --prometheus")
        return _traced(traced_run, shown, chosen, form, gpu_hour_price)
    if traced_run.layout is not None or traced_run.meta is not None:
        raise typer.BadParameter("--layout and --meta go with --trace OPS.parquet")
    if where.prometheus is not None:
        if archive is not None:
            raise typer.BadParameter("give the archive DIR or --prometheus URL, not both")
        if where.gpus is not None:
            if where.run is not None or shown.timeline is not None:
                raise typer.BadParameter("--gpus goes without --run and without --timeline")
            alone = sources.diagnose_hardware(
                where.prometheus, where.gpus, where.since, where.until
            )
            output.document(verdict_json(alone), form, table(alone))
            return diagnosis.exit_code(alone)
        if where.run is None:
            raise typer.BadParameter("--prometheus needs --run ID, or --gpus")
        diagnosed = sources.diagnose_prometheus(
            where.prometheus, where.run, where.since, where.until, gpu_hour_price,
            push_down=where.push_down, topology=topology, node_labels=where.node_label or (),
        )  # fmt: skip
    elif given:
        are = "goes" if len(given) == 1 else "go"
        raise typer.BadParameter(f"{' and '.join(given)} {are} with --prometheus URL")
    elif archive is None:
        raise typer.BadParameter(
            "give the archive DIR of a run, --trace FILE, or --prometheus URL --run ID"
        )
    else:
        archive = newest.archive_in(archive, "analyze")
        diagnosed = diagnosis.diagnose_archive(archive, gpu_hour_price, topology, history=True)
    verdict = diagnosed.verdict
    if write and archive is not None:
        try:
            diagnosis.write_verdict(verdict, archive)
        except OSError as error:
            output.note(f"lockstep: verdict.json was not written: {error}")
    output.document(verdict_json(verdict), form, table(verdict))
    if shown.timeline is not None:
        timelines.write(shown.timeline, diagnosed.run, chosen, verdict.culprits)
    if collectives.transfers is not None:
        assert archive is not None
        diagnosis.write_transfers(archive, collectives.transfers)
    return diagnosis.exit_code(verdict)


def _given(options: PrometheusOptions) -> list[str]:
    """Those that somebody gave, as they are written."""
    told = {each.name: getattr(options, each.name) for each in fields(options)}
    return [f"--{name.replace('_', '-')}" for name, value in told.items() if value is not None]


def _traced(
    asked: TraceOptions,
    shown: TimelineOptions,
    steps: range | None,
    form: Format,
    gpu_hour_price: float | None,
) -> int:
    from lockstep.analyzer.shapes.verdict_json import verdict_json

    assert asked.trace is not None
    if asked.layout is not None and asked.meta is not None:
        raise typer.BadParameter("give --layout or --meta, not both")
    verdict = sources.diagnose_trace(asked.trace, asked.layout, asked.meta, gpu_hour_price)
    output.document(verdict_json(verdict), form, table(verdict))
    if shown.timeline is not None:
        operations = sources.read_trace(asked.trace, asked.layout, asked.meta)
        timelines.write(shown.timeline, operations, steps, verdict.culprits)
    return diagnosis.exit_code(verdict)


def table(verdict: "Verdict") -> str:
    """The verdict for people: the sentence, the culprits, and what speaks for and against."""
    from lockstep.analyzer.report.sections.what_if import gives_back

    parts = [output.emphasis(verdict.sentence)]
    parts += [_told_before(told) for told in verdict.history]
    if verdict.culprits:
        header = ("rank", "node", "gpu", "from step", "slowdown", "sure of place", "cause",
                  "sure of cause", "tier")  # fmt: skip
        parts.append(output.grid(header, [_row(culprit) for culprit in verdict.culprits]))
    for culprit in verdict.culprits:
        facts = [f"{'+' if fact.supports else '-'} {fact.text}" for fact in culprit.evidence]
        parts.append(_listed(f"evidence, {culprit.cause} (+ for, - against):", facts))
    quiet = [each["text"] for each in verdict.anomalies if not each["costs_time"]]
    if quiet:
        parts.append(_listed("hardware that deviates and costs no time yet:", quiet))
    if verdict.alternatives:
        others = (f"{each['cause']} {each['confidence']:.2f}" for each in verdict.alternatives)
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
        parts.append(_listed("by design, not a fault:", lines))
    if verdict.rejected:
        lines = [f"rank {each.rank}: {each.why}" for each in verdict.rejected]
        parts.append(_listed("ruled out:", lines))
    missing = "; missing: " + ", ".join(verdict.missing) if verdict.missing else ""
    parts.append(f"coverage {verdict.coverage:.0%}{missing}")
    return "\n\n".join(parts)


def _told_before(finding: Mapping[str, Any]) -> str:
    """In a line; with what it was told by where the verdict, whose sentence says so, disagrees."""
    if finding["agrees"]:
        return visible_line(finding["text"])
    facts = [f"{'+' if fact['for'] else '-'} {fact['text']}" for fact in finding["evidence"]]
    who = "the alert" if finding["by"] == "alert" else "watch"
    return _listed(f"what {who} reported then:", [f'"{finding["sentence"]}"', *facts])


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
        "-" if culprit.place_confidence is None else f"{culprit.place_confidence:.2f}",
        culprit.cause,
        f"{culprit.confidence:.2f}",
        culprit.tier,
    )
