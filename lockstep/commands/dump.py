"""`lockstep dump`: who is missing from which collective, by PyTorch's flight recorder."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output
from lockstep.terminal.output import Format

if TYPE_CHECKING:
    from lockstep.collector.clock import Clock
    from lockstep.collector.contract.stacks import Depth
    from lockstep.collector.formats.flight_recorder.dump import Dump
    from lockstep.collector.on_demand.dumps import Answer, Answers

HEADER = ("rank", "node", "group", "enqueued", "started", "completed", "inside")


def dump(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of a run on this machine.")],
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Where its ranks write their rings.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=60, help="Seconds to wait for the ranks.")
    ] = 5.0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also keep the dumps, to send or for `lockstep hang FOLDER`."
        ),
    ] = None,
    stacks: Annotated[
        bool,
        typer.Option(
            "--stacks",
            help="Also the stacks of the blamed ranks and of one peer each: by py-spy or"
            " faulthandler; the program goes on.",
        ),
    ] = False,
    native: Annotated[
        bool,
        typer.Option("--native", help="Also frames of C; each process stops meanwhile."),
    ] = False,
    stack_timeout: Annotated[
        float, typer.Option(min=0.1, max=300, help="Seconds to spend on stacks.")
    ] = 10.0,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
) -> int:
    """Ask each rank of a hanging run which collective it is in, and name the missing ranks.

    Harmless to the run. Exits 69 if no rank of it is found, or none answers.

    Example: lockstep dump gpt-20261120T101500-3f2a
    """
    from lockstep.collector.clock import SystemClock
    from lockstep.collector.contract.stacks import Depth
    from lockstep.collector.on_demand.dumps import of_newest_attempt, ranks_below, request_dumps

    if "/" in run or not run:
        raise typer.BadParameter(f"{run!r} is no name of a run; `lockstep run` prints it")
    if native and not stacks:
        raise typer.BadParameter("--native is about stacks: give --stacks, too")
    depth = (Depth.NATIVE if native else Depth.PYTHON) if stacks else Depth.OFF
    clock, proc = SystemClock(), Path("/proc")
    where = folder if folder is not None else _rings()
    found = ranks_below(where, proc, clock)
    ranks = of_newest_attempt([rank for rank in found if rank.key[0] == run])
    ranks.sort(key=lambda rank: rank.key)
    if not ranks:
        runs = ", ".join(sorted({rank.key[0] for rank in found})) or "none"
        output.fail(
            ExitCode.UNREACHABLE,
            f"no rank of run {run} has a ring in {where} (runs there: {runs}); give --dir DIR",
        )
    try:
        answers = request_dumps(ranks, proc, clock, timeout)
    except OSError as error:
        output.fail(ExitCode.UNREACHABLE, f"the ranks of {run} cannot be asked: {error}")
    if all(one.dump is None for one in answers.ranks) and not stacks:
        why = "; ".join(f"rank {one.rank.key[1]}: {one.why}" for one in answers.ranks)
        output.fail(ExitCode.UNREACHABLE, f"no rank of {run} wrote a dump: {why}")
    tree, text = _tree(run, answers), _table(answers)
    if out is not None or stacks:
        tree["verdict"], told = _judged(answers, where, out, depth, stack_timeout, proc, clock)
        text = f"{text}\n\n{told}"
    output.document(tree, form, text)
    return ExitCode.OK


def _judged(
    answers: "Answers",
    rings: Path,
    out: Path | None,
    depth: "Depth",
    seconds: float,
    proc: Path,
    clock: "Clock",
) -> tuple[dict[str, Any], str]:
    """Keep the dumps, take the stacks of those whom they blame, and say what they tell together."""
    from tempfile import TemporaryDirectory

    from lockstep.analyzer.hangs.document import document, table
    from lockstep.analyzer.hangs.stacks import choice
    from lockstep.analyzer.hangs.verdict import judge
    from lockstep.collector.contract import stacks
    from lockstep.collector.on_demand.stacks import take_stacks
    from lockstep.runs.hang_dumps import NoDumpsError, read_folder, save, save_stacks, sensed

    try:
        with TemporaryDirectory() if out is None else nullcontext(str(out)) as name:
            folder = Path(name)
            evidence = save(answers, sensed(os.environ, rings, clock), folder, proc, clock)
            dumped = any(one.dump is not None for one in answers.ranks)
            verdict = judge(read_folder(folder)[0][1]) if dumped else None
            if depth is not stacks.Depth.OFF:
                there = {one.rank.key[1]: one.rank for one in answers.ranks}
                chosen = choice(verdict, there)
                found = take_stacks(there.values(), chosen.ranks, depth, proc, clock, seconds)
                save_stacks(folder, evidence, found)
                verdict = judge(read_folder(folder)[0][1])
    except OSError as error:
        output.fail(ExitCode.UNREACHABLE, f"{out} cannot be written: {error.strerror}")
    except NoDumpsError as error:
        output.fail(ExitCode.UNREACHABLE, f"the dumps cannot be read again: {error}")
    assert verdict is not None  # there is a dump, or there are stacks
    return document(verdict), table(verdict)


def _rings() -> Path:
    """Where the collector of this machine would look."""
    from lockstep.collector.config import load

    return load(None, os.environ, {}).lockstep_dir


def _tree(run: str, answers: "Answers") -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run": run,
        "ranks": [_rank(one) for one in answers.ranks],
        "missing": [
            {
                "group": one.group,
                "sequence": one.sequence,
                "op": one.op,
                "missing_ranks": [*one.ranks, *one.silent],
                "waited_seconds": one.waited_seconds,
            }
            for one in answers.missing
            if one.held_up
        ],
    }


def _rank(answer: "Answer") -> dict[str, Any]:
    groups = answer.dump.groups if answer.dump is not None else ()
    return {
        "rank": answer.rank.key[1],
        "node": answer.rank.header.identity.node,
        "why": "" if answer.dump is not None else answer.why,
        "format": answer.dump.version if answer.dump is not None else "",
        "library": answer.dump.library if answer.dump is not None else "",
        "groups": [
            {
                "group": state.group,
                "enqueued": state.enqueued,
                "started": state.started,
                "completed": state.completed,
                "inside": state.open[0].op if state.open else None,
                "inside_seconds": state.open[0].waited_seconds if state.open else None,
            }
            for state in groups
        ],
    }


def _table(answers: "Answers") -> str:
    rows: list[tuple[str, ...]] = []
    for one in answers.ranks:
        who = (str(one.rank.key[1]), one.rank.header.identity.node)
        if one.dump is None:
            rows.append((*who, "", "", "", "", f"no dump: {one.why}"))
            continue
        for state in one.dump.groups:
            numbers = (_number(n) for n in (state.enqueued, state.started, state.completed))
            inside = [f"{each.op} for {each.waited_seconds:.1f} s" for each in state.open[:1]]
            rows.append((*who, state.group, *numbers, *(inside or [""])))
    lines = [
        f"{_ranks(*one.ranks, *one.silent)} missing from {one.op} {one.sequence} of group"
        f" {one.group}; others have waited {one.waited_seconds:.1f} s"
        for one in answers.missing
        if one.held_up
    ]
    sentence = "\n".join(lines) or "No rank is missing from a collective."
    formats = {_format(one.dump) for one in answers.ranks if one.dump is not None}
    told = "".join(f"\nDumps of {each}." for each in sorted(formats))
    return f"{output.grid(HEADER, rows)}\n\n{sentence}{told}"


def _format(dump: "Dump") -> str:
    library = f", library {dump.library}" if dump.library else ""
    return f"torch's format {dump.version}{library}"


def _ranks(*ranks: int) -> str:
    verb = "is" if len(ranks) == 1 else "are"
    return f"Rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} {verb}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
