"""`lockstep bench run` and `stop`: the cells of a benchmark, from this machine."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.bench.plan import Cell
    from lockstep.bench.runner import Told
    from lockstep.bench.spec import Bench


# Arguments that several commands of `lockstep bench` share.

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The benchmark, as TOML.")]
As = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]


def planned(spec: Path) -> "tuple[Bench, tuple[Cell, ...]]":
    """A benchmark's file, and its cells.

    Raises:
        CommandError: 65, it cannot be run.
    """
    from lockstep.bench.plan import cells
    from lockstep.bench.spec import BenchError, read

    try:
        bench = read(spec)
        return bench, cells(bench)
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))


LOCKSTEP = (sys.executable, "-m", "lockstep")
OutFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Its folder; default benches/<name>.")
]


def run(
    context: typer.Context,
    spec: SpecFile,
    out: OutFolder = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Table of results; default results.parquet in --out."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every command, and run none.")
    ] = False,
    cell: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this cell, as --dry-run names it.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only this repeat of each cell, from 0.")
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Wait so long behind another benchmark; default ever.",
        ),
    ] = None,
    form: As = Format.TABLE,
) -> int:
    """Run every cell of a benchmark that has not finished yet, unattended.

    One line a cell. Ctrl-C and kills lose nothing: the same command goes on where it was. A cell
    that fails is named with its rank, node and last lines, and the others go on. Exits 0 when all
    cells have finished, 70 when one failed.

    Example: lockstep bench run nightly.toml
    """
    from lockstep.bench import runner
    from lockstep.bench.fitting import refuse_what_cannot_run
    from lockstep.bench.processes import default_file, turn
    from lockstep.bench.spec import BenchError, UnreachableError
    from lockstep.bench.state import RESULTS
    from lockstep.runs import claim
    from lockstep.terminal.interrupts import Interrupts

    bench, cells = planned(spec)
    cells = _chosen(cells, cell, repeat)
    folder = (out or Path("benches") / bench.name).resolve()
    table = results.resolve() if results is not None else folder / RESULTS
    show = output.Progress()
    interrupts = Interrupts()
    one = runner.Runner(bench, folder, table, spec.resolve().parent, LOCKSTEP)
    try:
        if dry_run:
            _show_plan(one, cells, form)
            return ExitCode.OK
        for each in cells:
            one.planned(each)
        left = [each for each in cells if not one.finished(each)]
        refuse_what_cannot_run(bench, left, show, _options_of_run(context), one.beside)
        runner.refuse_without_room(folder)
        with interrupts.noted(), claim.claim_folder(folder):
            one.check(cells)
            who = f"{bench.name} in {folder} (process {_own_id()})"
            one.heeded = interrupts.heeded
            with interrupts.heeded():
                waiting = turn(who, default_file(), lambda before: output.note(
                    f"waiting behind {before}"), wait)  # fmt: skip
                waiting.__enter__()
            try:
                told = _run_all(one, cells, show, form, interrupts)
            finally:
                waiting.__exit__(None, None, None)
        if interrupts.came:
            raise KeyboardInterrupt
    except UnreachableError as error:
        output.fail(ExitCode.UNREACHABLE, str(error))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    except KeyboardInterrupt:
        show.close()
        output.note(f"stopped; the same command goes on: lockstep bench run {spec}"
                    f"{'' if out is None else f' --out {out}'}")  # fmt: skip
        if one.left:
            output.note(one.left)
        return ExitCode.INTERRUPTED
    finally:
        show.close()
    failed = [each for each in told if each.status != "finished"]
    output.note(f"{len(told) - len(failed)} of {len(told)} cells finished; results in {table}")
    if failed:
        output.fail(
            ExitCode.INTERNAL,
            f"{len(failed)} of {len(told)} cells failed, first {failed[0].cell.name}:"
            f" {failed[0].reason}; the same command runs them again",
        )
    return ExitCode.OK


def stop(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the benchmark.")],
) -> None:
    """Stop a benchmark that runs on this machine; `bench run` goes on where it was.

    The run under way is ended in an orderly way: on a cluster it is deleted. Returns when nothing
    of it runs any more.

    Example: lockstep bench stop benches/nightly
    """
    import os
    import signal
    import time

    from lockstep.bench.processes import GRACE_SECONDS
    from lockstep.bench.state import writer

    found = writer(out)
    if found is None:
        output.fail(ExitCode.USAGE, f"no benchmark runs in {out}")
    try:
        os.kill(found, signal.SIGTERM)
    except OSError as error:
        output.fail(ExitCode.UNREACHABLE, f"process {found} cannot be stopped: {error.strerror}")
    most = 2 * GRACE_SECONDS
    until = time.monotonic() + most
    while writer(out) == found:
        if time.monotonic() > until:
            output.fail(
                ExitCode.UNREACHABLE,
                f"process {found} was asked to stop and has not ended after {most:g} s; look"
                f" at it, or: kill -9 {found}",
            )
        time.sleep(0.1)
    output.data(f"process {found} has stopped; `lockstep bench run` goes on")


def _chosen(cells: "tuple[Cell, ...]", name: str | None, repeat: int | None) -> "tuple[Cell, ...]":
    chosen = tuple(
        each for each in cells
        if name in (None, each.name) and repeat in (None, each.repeat)
    )  # fmt: skip
    if not chosen:
        names = sorted({each.name for each in cells})
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        what = f"--repeat {repeat}" if name in (None, *names) else f"--cell {name}"
        output.fail(
            ExitCode.USAGE,
            f"{what} is none of the benchmark's; its cells are {', '.join(names[:5])}{more}, each"
            f" {max(each.repeat for each in cells) + 1} times",
        )
    return chosen


def _options_of_run(context: typer.Context) -> set[str]:
    """What a workload may set, without dashes."""
    root: Any = context.find_root()
    params = root.command.get_command(root, "run").params
    return {
        word.removeprefix("--")
        for each in params for word in (*each.opts, *each.secondary_opts) if word.startswith("--")
    }  # fmt: skip


def _run_all(
    one: Any, cells: "Sequence[Cell]", show: output.Progress, form: Format, interrupts: Any
) -> "list[Told]":
    """Every cell, with a line for each."""
    told: list[Told] = []
    for number, cell in enumerate(cells, 1):
        if interrupts.came:
            raise KeyboardInterrupt
        one.show = lambda stage, text, n=number: show(f"{n} of {len(cells)} {stage}", text)
        ended = one.run(cell)
        show.close()
        told.append(ended)
        _tell(ended, number, len(cells), form)
    return told


def _tell(progress: "Told", number: int, total: int, form: Format) -> None:
    cell = progress.cell
    tree = {
        "cell": cell.name, "repeat": cell.repeat, "status": progress.status,
        "reason": progress.reason,
        "seconds": round(progress.seconds, 3), "queued_seconds": round(progress.queued, 3),
        "step_seconds": progress.step_seconds, "before": progress.again,
    }  # fmt: skip
    speed = (
        "" if progress.step_seconds is None else f", {1e3 * progress.step_seconds:.1f} ms a step"
    )
    waited = f" ({progress.queued:.1f} s of them in its queue)" if progress.queued else ""
    took = f"in {progress.seconds:.1f} s{waited}{speed}"
    how = "finished before" if progress.again else f"{progress.status} {took}"
    line = f"{number:>3} of {total}  {cell.name} repeat {cell.repeat}: {how}"
    if progress.reason:
        line += f": {progress.reason}"
    output.document(tree, Format.TABLE if form is Format.TABLE else Format.JSONL, line)


def _show_plan(one: Any, cells: "Sequence[Cell]", form: Format) -> None:
    import shlex

    for cell in cells:
        planned = one.planned(cell)
        tree = {
            "cell": cell.name, "repeat": cell.repeat,
            "steps": [{"name": each.name, "command": list(each.command)} for each in planned],
        }  # fmt: skip
        lines = [f"{cell.name} repeat {cell.repeat}"]
        lines += [f"  {each.name:10}{shlex.join(each.command)}" for each in planned if each.command]
        output.document(tree, Format.TABLE if form is Format.TABLE else Format.JSONL,
                        "\n".join(lines))  # fmt: skip


def _own_id() -> int:
    import os

    return os.getpid()


# `lockstep bench workflow` and `measure`: a benchmark that a cluster runs.


def workflow(
    spec: SpecFile,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Of its steps; default that of the runs."),
    ] = None,
) -> None:
    """Print a benchmark on a cluster as one Argo Workflow, a step a cell, for `kubectl create`.

    Argo runs it from there on, without a terminal. Results lie on the claim, in
    benches/<name>; created again, it goes on with the cells that have not finished.

    Example: lockstep bench workflow nightly.toml | kubectl create -f -
    """
    import json

    from lockstep.bench.spec import BenchError
    from lockstep.bench.workflow import workflow as made
    from lockstep.runs.cluster_options import DEFAULT_CLAIM, DEFAULT_NAMESPACE

    bench, cells = planned(spec)
    told = bench.options
    try:
        chosen = image or cells[0].image or str(told.get("image", ""))
        tree = made(bench, cells, spec.read_text(), chosen,
                    str(told.get("namespace", DEFAULT_NAMESPACE)),
                    str(told.get("claim", DEFAULT_CLAIM)))  # fmt: skip
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
    output.data(json.dumps(tree, indent=2))


def measure(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Of a run.")],
) -> None:
    """Print how fast a run was and what was found, as a line of JSON: a row of results.

    On a cluster a pod beside the archive says so, and `bench run` keeps it.

    Example: lockstep bench measure runs/gpt-1
    """
    from lockstep.bench.measure import line
    from lockstep.bench.spec import BenchError

    try:
        output.data(line(archive))
    except BenchError as error:
        output.fail(ExitCode.BAD_INPUT, str(error))
