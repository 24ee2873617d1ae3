"""`lockstep analyze`: who holds the run back, and why, as a verdict and an exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep import diagnosis, output
from lockstep.output import Format

if TYPE_CHECKING:
    from analyzer.run import Culprit, Verdict


def analyze(
    archive: Annotated[Path, typer.Argument(metavar="DIR", help="Archive of the run.")],
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.TABLE,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Write verdict.json into the archive.")
    ] = True,
    gpu_hour_price: Annotated[
        float | None, typer.Option(min=0, help="Price of a GPU-hour, for the cost.")
    ] = None,
) -> int:
    """Name the culprit rank, GPU and node of a run, with the evidence.

    Exits 0 healthy, 1 warning, 2 a culprit was named, 3 unknown or too little data.

    Example: lockstep analyze runs/gpt-20261120T101500-3f2a -o json
    """
    from analyzer.verdict_json import verdict_json

    verdict = diagnosis.diagnose(archive, gpu_hour_price).verdict
    if write:
        try:
            diagnosis.write_verdict(verdict, archive)
        except OSError as error:
            output.note(f"lockstep: verdict.json was not written: {error}")
    output.document(verdict_json(verdict), form, table(verdict))
    return diagnosis.exit_code(verdict)


def table(verdict: "Verdict") -> str:
    """The verdict for people: the sentence, the culprits, and what speaks for and against."""
    parts = [output.emphasis(verdict.sentence)]
    if verdict.culprits:
        header = ("rank", "node", "gpu", "from step", "slowdown", "cause", "confidence", "tier")
        parts.append(output.grid(header, [_row(culprit) for culprit in verdict.culprits]))
    for culprit in verdict.culprits:
        facts = [f"  {'+' if fact.supports else '-'} {fact.text}" for fact in culprit.evidence]
        parts.append("\n".join([f"evidence, {culprit.cause} (+ for, - against):", *facts]))
    if verdict.alternatives:
        others = (f"{each['cause']} {each['confidence']:.0%}" for each in verdict.alternatives)
        parts.append("alternatives: " + ", ".join(others))
    if verdict.rejected:
        lines = [f"  rank {each.rank}: {each.why}" for each in verdict.rejected]
        parts.append("\n".join(["let go:", *lines]))
    missing = "; missing: " + ", ".join(verdict.missing) if verdict.missing else ""
    parts.append(f"coverage {verdict.coverage:.0%}{missing}")
    return "\n\n".join(parts)


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
