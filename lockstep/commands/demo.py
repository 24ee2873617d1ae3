"""`lockstep demo`: a real run with a real straggler, found, explained and reported."""

import secrets
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis
from lockstep.terminal import output

FAULT = "thermal:rank=2,factor=1.5"
NODES, STEPS = 4, 300

ORIGIN = """\
real       processes, gradients, collectives, data, CPU, and every recorded time
emulated   nodes (they share this machine) and devices (compute waits for their deadline)
simulated  GPU temperature, clocks, power and throttling; no hardware was hot"""


def demo(
    seed: Annotated[int, typer.Option(help="Seed of weights, data and noise.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Archive; default runs/<run>.")
    ] = None,
) -> int:
    """Train on four emulated nodes, overheat one, and find out which.

    Exits 70 if the verdict differs from what was injected. Needs no GPU, root, Prometheus or
    network, and about half a minute.
    """
    # torch must be imported before the ranks are forked, pandas need not: it comes after.
    from lockstep.runs.observe import run_observed
    from lockstep.runs.planning import plan
    from lockstep.workloads.launch.launcher import Ending

    show = output.Progress()
    spec = plan(
        "gpt", nodes=NODES, ranks_per_node=1, steps=STEPS, seed=seed, faults=[FAULT],
        token=secrets.token_hex(2),
    )  # fmt: skip
    archive = Path("runs") / spec.run if out is None else out

    try:
        outcome = run_observed(spec, archive, show)
        if outcome.ending is Ending.INTERRUPTED:
            return ExitCode.INTERRUPTED
        if outcome.ending is not Ending.FINISHED:
            output.fail(ExitCode.INTERNAL, f"the run ended early: {outcome.reason}; see {archive}")
        show("analyzing", str(archive))
        return _conclude(archive, show)
    finally:
        show.close()


def _conclude(archive: Path, show: output.Progress) -> int:
    from lockstep.runs import truth

    diagnosed = diagnosis.diagnose_archive(archive)
    diagnosis.write_verdict(diagnosed.verdict, archive)
    show("reporting", str(archive))
    paths = diagnosis.write_reports(diagnosed, archive, diagnosis.FORMATS)
    show.close()
    faults = truth.read(archive)
    output.data(output.emphasis(diagnosed.verdict.sentence))
    output.data("\ninjected   " + "; ".join(truth.sentence(fault) for fault in faults))
    output.data(ORIGIN)
    needs = "" if find_spec("streamlit") else "  (make dashboard installs what it needs)"
    output.data(f"\nbrowse     lockstep dashboard {shlex.quote(str(archive))}{needs}")
    output.data("\n".join(f"report     {path}" for path in paths))
    difference = truth.disagreement(diagnosed.verdict, faults)
    if difference is not None:
        output.fail(ExitCode.INTERNAL, f"the verdict is wrong: {difference}")
    return ExitCode.OK
