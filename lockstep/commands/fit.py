"""`lockstep fit`: the table that says what each symptom speaks for, from simulated fleets."""

from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal import output


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
            help="Archives with truth.json, as `score real` and `score faults` leave, or a file"
            " that --keep-examples wrote: these, too, set how sure a verdict may be. Again for"
            " another setting; all weigh the same.",
        ),
    ] = None,
    keep_examples: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Writes what each folder of archives shows there, as NAME.jsonl."
        ),
    ] = None,
) -> int:
    """Fit the weights by which a cause is named; for those who change symptoms or causes.

    A third more runs, which the weights do not see, and the real ones whose examples lie in
    evaluation/calibration set how sure the verdict may be. Minutes; the same seed (and archives)
    give the same file on one machine.

    Example: lockstep fit --out analyzer/causes/cause_weights.json
    """
    from lockstep.evaluation.fitting import LINES, fitted, with_kept

    progress = output.Progress(plain_seconds=30.0)
    found = fitted(
        runs,
        seed,
        lambda done, of: progress("fitting", f"run {done} of {of}"),
        with_kept(calibrate_on or ()),
    )
    progress.close()
    texts = {out: found.table}
    if keep_examples:
        texts |= {
            keep_examples / f"{name}{LINES}": text for name, text in found.examples.items() if text
        }
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            output.fail(ExitCode.BAD_INPUT, f"{path} cannot be written: {error.strerror}")
    output.note("\n".join([found.words, *(f"wrote {path}" for path in texts)]))
    return ExitCode.OK
