"""`lockstep fit`: the table that says what each symptom speaks for, from simulated fleets."""

from pathlib import Path
from typing import Annotated

import typer

from collector.contract.words import ExitCode
from lockstep import output


def fit(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the table is written.")] = Path(
        "cause_weights.json"
    ),
    runs: Annotated[
        int, typer.Option(min=20, help="Simulated runs with faults, two of three untidy.")
    ] = 720,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run; then one higher.")] = (
        1_000_000
    ),
    calibrate_on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Archives with truth.json, as `score real` and `score faults` leave: these, too,"
            " set how sure a verdict may be. Again for another setting; all weigh the same.",
        ),
    ] = None,
) -> int:
    """Fit the weights by which a cause is named; for those who change symptoms or causes.

    A third more runs, which the weights do not see, set how sure the verdict may be. Minutes; the
    same seed (and archives) give the same file on one machine.

    Example: lockstep fit --out analyzer/cause_weights.json
    """
    from lockstep.fitting import fitted

    progress = output.Progress(plain_seconds=30.0)
    table, words = fitted(
        runs, seed, lambda done, of: progress("fitting", f"run {done} of {of}"), calibrate_on or ()
    )
    progress.close()
    try:
        out.write_text(table)
    except OSError as error:
        output.fail(ExitCode.BAD_INPUT, f"the table cannot be written to {out}: {error.strerror}")
    output.note(f"{words}\nwrote {out}")
    return ExitCode.OK
