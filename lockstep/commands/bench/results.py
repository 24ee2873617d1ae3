"""Commands of `lockstep bench` that read results: to show, judge, lock, hand on and draw them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.commands.bench.here import As
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.bench.judging import Judgement

TablesArgument = Annotated[
    list[Path],
    typer.Argument(metavar="RESULTS...", help="Tables, folders of benchmarks, or archives."),
]


def list_(
    tables: TablesArgument,
    form: As = Format.TABLE,
) -> None:
    """Show results: each cell with its mean over repeats and a 95 % interval.

    Example: lockstep bench list benches/nightly
    """
    from lockstep.bench.summary import header, summaries, summary_row

    rows = _read(tables)
    told = summaries(rows)
    output.document(
        {"cells": [each.to_json() for each in told]}, form,
        output.grid(header(), [summary_row(each) for each in told]),
    )  # fmt: skip


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="A locked baseline, a table, or an archive.")
    ],
    after: Annotated[Path, typer.Argument(metavar="B", help="A table, or an archive.")],
    form: As = Format.TABLE,
) -> int:
    """Judge B against A, workload by workload: a regression, one slow GPU, both, or neither.

    Says what changed, how sure it is, and the smallest change that it would have noticed. Exits 0
    as before, 1 slower and where is unknown, 2 a regression or a culprit was named, 3 too little
    data.

    Example: lockstep bench compare baseline.json benches/nightly
    """
    from lockstep.bench.baseline import rows_of_any
    from lockstep.bench.judging import compared, exit_code
    from lockstep.bench.spec import BenchError

    try:
        told = compared(rows_of_any(before), rows_of_any(after))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    tree = {"comparisons": [each.to_json() for each in told]}
    output.document(tree, form, "\n".join(map(_judged_lines, told)))
    return exit_code(told)


def lock(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Good results: tables, benchmarks, or archives."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="The baseline; it must not be there.")
    ] = Path("baseline.json"),
    cell: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this cell of them. Several may be given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace one that is there.")] = False,
) -> None:
    """Fix hardware, software and workload of good results as a baseline for later runs.

    `lockstep bench compare FILE B` judges against it, and `lockstep watch --baseline FILE` a live
    run. Three repeats or more are advised: with one, only large changes are noticed. Of a benchmark
    in which a cell failed, `--cell` locks those that are good.

    Example: lockstep bench lock benches/nightly --out baseline.json
    """
    from lockstep.bench.baseline import locked, of_cells, rows_of_any, write_baseline
    from lockstep.bench.spec import AskedError, BenchError

    try:
        if out.exists() and not force:
            output.fail(ExitCode.USAGE, f"{out} is there; give --force, or another --out")
        baseline = locked(of_cells([row for each in runs for row in rows_of_any(each)], cell))
        write_baseline(out, baseline)
    except AskedError as error:
        output.fail(ExitCode.USAGE, str(error))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    for each in baseline.lines():
        output.data(each)


def export(
    tables: TablesArgument,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="As FILE.csv, .json or .parquet; default CSV on stdout."),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Storage that fsspec knows, as s3://BUCKET/FOLDER, or postgresql://"
        ),
    ] = None,
    table: Annotated[str, typer.Option(help="Name of the table in a Postgres.")] = "results",
) -> None:
    """Write results as CSV, JSON or Parquet, or push them to storage or a Postgres.

    Columns have a fixed order; metrics follow by name. Pushing again replaces. Credentials come
    from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL; PGPASSWORD.

    Example: lockstep bench export benches/nightly --to nightly.csv
    """
    from lockstep.bench import exports
    from lockstep.bench.spec import AskedError, BenchError, UnreachableError

    rows = _read(tables)
    try:
        if to is not None:
            exports.write_export(rows, to)
    except UnreachableError as error:
        output.fail(ExitCode.UNREACHABLE, str(error))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    try:
        if push is not None:
            output.note(f"{len(rows)} results are in {exports.push(rows, push, table)}")
    except AskedError as error:
        output.fail(ExitCode.USAGE, str(error))
    except BenchError as error:
        output.fail(ExitCode.UNREACHABLE, str(error))
    if to is None and push is None:
        output.data(exports.as_csv(rows).rstrip("\n"))


def plot(
    tables: TablesArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the figures.")] = Path(
        "plots"
    ),
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='TOML: [prices], as "NVIDIA H100" = 2.5 an hour.'),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="svg or png.")] = "svg",
) -> None:
    """Draw time to accuracy, speed-up, cost, communication share and phases, each also as CSV.

    Example: lockstep bench plot benches/nightly --prices prices.toml
    """
    from lockstep.bench import plots
    from lockstep.bench.spec import BenchError
    from lockstep.collector.contract.whole_file import write_whole

    if form not in ("svg", "png"):
        raise typer.BadParameter(f"--format is {form!r}; it must be svg or png")
    rows = _read(tables)
    try:
        known = None if prices is None else plots.read_prices(prices.read_text())
    except (BenchError, OSError, UnicodeDecodeError) as error:
        output.fail(ExitCode.BAD_INPUT, f"--prices {prices}: {error}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for each in plots.plots(rows, known):
            write_whole(out / f"{each.name}.csv", each.to_csv())
            output.data(str(write_whole(out / f"{each.name}.{form}", plots.draw(each, form))))
            for missing in each.missing:
                output.note(f"{each.name}: {missing}")
    except OSError as error:
        output.fail(ExitCode.UNREACHABLE, f"{out} cannot be written: {error.strerror}")


def tf_cnn(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="What tf_cnn_benchmarks printed.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its numbers, as an output `metrics` of a step."),
    ] = None,
) -> None:
    """Print the 14 keys of a log of tf_cnn_benchmarks, as JSON.

    Example: lockstep bench tf-cnn launch.out --out metrics.json
    """
    import json

    from lockstep.bench.exports import numbers, read
    from lockstep.bench.spec import BenchError
    from lockstep.collector.contract.whole_file import write_whole

    try:
        told = read(log)
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    try:
        if out is not None:
            write_whole(out, json.dumps(numbers(told), indent=2) + "\n")
    except OSError as error:
        output.fail(ExitCode.UNREACHABLE, f"{out} cannot be written: {error.strerror}")
    output.data(json.dumps(told, indent=2))


def _read(tables: list[Path]) -> list[dict[str, Any]]:
    from lockstep.bench.baseline import rows_of_any
    from lockstep.bench.spec import BenchError

    try:
        return [dict(row) for each in tables for row in rows_of_any(each)]
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))


def _judged_lines(judgement: "Judgement") -> str:
    return "\n".join(
        [output.emphasis(judgement.sentence), *(f"  {each}" for each in judgement.facts)]
    )
