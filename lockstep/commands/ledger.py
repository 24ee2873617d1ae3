"""`lockstep ledger`: where every rank-second of runs went, over all their attempts."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from lockstep.cli.option_groups import grouped
from lockstep.diagnose import ledgers
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.analyzer.ledger.faults import Fleet
    from lockstep.analyzer.ledger.ledger import Ledger
    from lockstep.analyzer.ledger.reliability import Reliability


KWH = 3.6e6
"""Joules."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The run as a Prometheus recorded it."""

    PANEL: ClassVar = "Instead of archives: a Prometheus"

    prometheus: Annotated[
        str | None, typer.Option(metavar="URL", help="Prometheus that recorded the run.")
    ] = None
    run: Annotated[str | None, typer.Option(metavar="ID", help="The run's id.")] = None
    since: Annotated[
        str | None, typer.Option(metavar="T", help="A date, or how long ago, as 90m.")
    ] = None
    until: Annotated[str | None, typer.Option(metavar="T", help="Likewise.")] = None


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """The run as its log alone tells."""

    PANEL: ClassVar = "Instead of archives: a log"

    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A log with iteration lines of Megatron-LM."),
    ] = None
    ranks: Annotated[
        int | None, typer.Option(min=1, max=131072, help="Ranks of its run, which it does not say.")
    ] = None


@dataclass(frozen=True, slots=True)
class FaultTrace:
    """The faults of a fleet, without runs."""

    PANEL: ClassVar = "Instead of archives: faults of a fleet"

    faults: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Their begins and ends as JSON.")
    ] = None
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes that were watched; default: those that had a fault."),
    ] = None
    days: Annotated[
        float | None, typer.Option(min=0, help="How long; default: to the last event.")
    ] = None


@grouped
def ledger(
    recorded: RecordedRun,
    logged: LoggedRun,
    trace: FaultTrace,
    archives: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR...", help="Archives of runs, or folders of archives."),
    ] = None,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a GPU-hour, for the cost.")
    ] = None,
) -> None:
    """Say where every rank-second of runs went, over all their attempts.

    Archives of one run, or of runs that went on from another's checkpoint, are attempts of one. The
    buckets of a run sum to its wall time times its ranks. Beside them: goodput, effective training
    time ratio, and mean times between failures and to repair with 95 % intervals.

    Example: lockstep ledger runs --gpu-hour-price 2.5
    """
    from lockstep.analyzer.ledger.words import fleet_json, ledger_json

    others = (recorded.prometheus, logged.log, trace.faults)
    if bool(archives) + sum(each is not None for each in others) != 1:
        raise typer.BadParameter(
            "give archives DIR, --prometheus URL --run ID, --log FILE --ranks N, or --faults FILE"
        )
    _belong(recorded, "prometheus", "--prometheus URL")
    _belong(logged, "log", "--log FILE")
    _belong(trace, "faults", "--faults FILE")
    for name, value in (("--gpu-hour-price", gpu_hour_price), ("--days", trace.days)):
        if value is not None and not math.isfinite(value):
            raise typer.BadParameter(f"{name} is {value}; it must be a finite number")
    if trace.faults is not None:
        fleet = ledgers.of_faults(trace.faults, trace.nodes, trace.days)
        output.document(fleet_json(fleet), form, _fleet_table(fleet))
        return
    if recorded.prometheus is not None:
        if recorded.run is None:
            raise typer.BadParameter("--prometheus needs --run ID")
        told = ledgers.of_prometheus(
            recorded.prometheus, recorded.run, recorded.since, recorded.until
        )
    elif logged.log is not None:
        if logged.ranks is None:
            raise typer.BadParameter("--log needs --ranks N")
        told = ledgers.of_log(logged.log, logged.ranks)
    else:
        told = ledgers.of_archives(archives or [])
    output.document(ledger_json(told, gpu_hour_price), form, _table(told, gpu_hour_price))


def _belong(options: RecordedRun | LoggedRun | FaultTrace, lead: str, name: str) -> None:
    if getattr(options, lead) is not None:
        return
    for each in dataclasses.fields(options):
        if getattr(options, each.name) is not None:
            raise typer.BadParameter(f"--{each.name} goes with {name}")


def _table(ledgers: "Sequence[Ledger]", price: float | None) -> str:
    from lockstep.analyzer.ledger.reliability import of_fleet, of_node

    parts = [part for one in ledgers for part in _of_run(one, price)]
    if len(ledgers) > 1:
        parts.append(f"all {len(ledgers)} runs")
        parts.append(_teams(ledgers, price))
        both = [("fleet", of_fleet(ledgers)), ("node", of_node(ledgers))]
        parts += [_shares(*each) for each in both]
        parts.append(_means(*both[0]))
    parts.append(_means("node", of_node(ledgers)))
    return "\n\n".join(parts)


def _teams(ledgers: "Sequence[Ledger]", price: float | None) -> str:
    """Where the time of each team went, the most first."""
    from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, Bucket
    from lockstep.analyzer.ledger.ledger import by_team

    header = ["team", "GPU-hours", "useful", "straggler", "lost otherwise"]
    header += ["money", "of it lost"] if price is not None else []
    rows = []
    for team, sums in sorted(by_team(ledgers).items(), key=lambda pair: -float(pair[1].sum())):
        whole = float(sums.sum())
        good = float(sum(sums[INDEX[row.bucket]] for row in BUCKETS if row.productive))
        slow = float(sums[INDEX[Bucket.STRAGGLER]])
        shares = [f"{part / whole:.1%}" if whole > 0 else "-"
                  for part in (good, slow, whole - good - slow)]  # fmt: skip
        cost = [] if price is None else [f"{part / 3600 * price:.2f}"
                                         for part in (whole, whole - good)]  # fmt: skip
        rows.append((team, f"{whole / 3600:.4g}", *shares, *cost))
    return output.grid(header, rows)


def _of_run(ledger: "Ledger", price: float | None) -> list[str]:
    from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, Bucket
    from lockstep.analyzer.ledger.reliability import of_run
    from lockstep.analyzer.ledger.words import duration, joules_of, sentence, spoken_part

    attempts = f"{ledger.launches} attempt{'s' * (ledger.launches != 1)}"
    simulated = f" ({', '.join(ledger.provenance)})" if ledger.provenance else ""
    header = ["where it went", "rank-seconds", "share", "GPU-hours"]
    header += ["money"] if price is not None else []
    joules = joules_of([ledger])
    blank = () if joules is None else ("",)
    header += ["kWh"] if joules is not None else []
    rows: list[tuple[str, ...]] = []
    for row in BUCKETS:
        energy = () if joules is None else (f"{joules[INDEX[row.bucket]] / KWH:.4g}",)
        rows.append((*_row(row.title, ledger.of(row.bucket), ledger, price), *energy))
        if row.bucket is Bucket.STRAGGLER:
            rows += [
                (*_row(f"  {one.who}, {one.cause}", one.seconds, ledger, price), *blank)
                for one in ledger.stragglers
            ]
        if row.bucket is Bucket.STARTING:
            rows += [
                (*_row(f"  {spoken_part(part)}", seconds, ledger, price), *blank)
                for part, seconds in ledger.parts().items()
                if seconds
            ]
    whole = () if joules is None else (f"{joules.sum() / KWH:.4g}",)
    rows.append((*_row("sum", float(ledger.seconds.sum()), ledger, price), *whole))
    size = f"{len(ledger.ranks)} ranks, {duration(ledger.wall_seconds)}"
    facts = [
        f"{ledger.run}: {attempts}, {size}{simulated}",
        f"goodput {ledger.goodput:.1%}, effective training time ratio {ledger.ettr:.1%}",
    ]
    parts = [output.emphasis(f"{sentence(ledger)}."), "\n".join(facts), output.grid(header, rows)]
    parts.append(_means("run", of_run(ledger)))
    if joules is not None:
        share = ledger.powered_seconds / ledger.rank_seconds
        parts.append(f"energy of GPUs was reported for {share:.1%} of the rank-seconds")
    if ledger.missing:
        parts.append("\n".join(["missing:", *(f"  {each}" for each in ledger.missing)]))
    return parts


def _row(title: str, seconds: float, ledger: "Ledger", price: float | None) -> tuple[str, ...]:
    share = f"{seconds / ledger.rank_seconds:.2%}" if ledger.rank_seconds > 0 else "-"
    hours = seconds / 3600.0
    row = (title, f"{seconds:.1f}", share, f"{hours:.4g}")
    return row if price is None else (*row, f"{hours * price:.2f}")


def _means(what: str, reliability: "Reliability") -> str:
    from lockstep.analyzer.ledger.words import spoken

    repair = f"; mean time to repair {spoken(reliability.mttr)}" if reliability.repaired else ""
    failures = f"{reliability.failures} failure{'s' * (reliability.failures != 1)}"
    return f"{what}: {failures}; mean time between failures {spoken(reliability.mtbf)}{repair}"


def _shares(what: str, reliability: "Reliability") -> str:
    from lockstep.analyzer.ledger.words import spoken_share

    goodput, ettr = (spoken_share(each) for each in (reliability.goodput, reliability.ettr))
    return f"{what}: goodput {goodput}, effective training time ratio {ettr}"


def _fleet_table(fleet: "Fleet") -> str:
    from lockstep.analyzer.ledger.words import duration

    up = fleet.node.availability
    low, high = up.interval
    overlapping = fleet.faults - fleet.node.failures
    merged = f"; {overlapping} of them during another one of the node" if overlapping else ""
    head = (
        f"{fleet.faults} faults of {fleet.failed_nodes} of {fleet.nodes} nodes in"
        f" {duration(fleet.seconds)}{merged}"
    )
    kinds = [(kind or "-", str(count)) for kind, count in fleet.kinds.items()]
    return "\n\n".join([
        output.emphasis(f"{head}."),
        _means("node", fleet.node),
        _means("fleet", fleet.fleet),
        f"availability of a node {up.value:.2%} ({low:.2%} to {high:.2%})",
        output.grid(("fault", "how many"), kinds),
    ])  # fmt: skip
