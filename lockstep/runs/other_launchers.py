"""`lockstep run --job`: what torchrun, srun or a plain mpirun need to start a run themselves."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from lockstep.collector.contract.words import ExitCode
from lockstep.runs import archive, claim
from lockstep.terminal.output import fail
from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.network.emulated import needed
from lockstep.workloads.spec import RunSpec


def write_job(spec: RunSpec, out: Path, path: Path) -> str:
    """Write the job, and into `out` what is known of the run before it starts; how to start it.

    If something fails, nothing is left.

    Raises:
        CommandError: 64, the run needs our own launcher, or `out` is in use; 69, a file cannot be
            written.
    """
    if spec.network == "namespaces" or needed(spec.faults):
        fail(
            ExitCode.USAGE,
            "link faults and --network need a network that lockstep makes; leave --job out",
        )
    layout = spec.layout
    is_new = not os.path.lexists(path)
    job = Job(spec, out.resolve(), hosts=layout.nodes if spec.hosts else None, nodes=spec.hosts)
    with claim.claim_new_folder(out):
        try:
            archive.write_job(out, spec, archive.now())
            job.write(path)
        except BaseException as error:
            if is_new:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            _emptied(out)
            if isinstance(error, OSError):
                fail(
                    ExitCode.UNREACHABLE,
                    f"cannot write {error.filename or out}: {error.strerror or error}",
                )
            raise
    return (
        f"start it with: torchrun --nnodes {layout.nodes} --nproc-per-node"
        f" {layout.ranks_per_node} -m lockstep.workloads {path}\n"
        f"{out} holds run.json, ranks.parquet and truth.json. The run is not recorded: steps and"
        " samples are on the page of `lockstep collect` on each host while it runs, for your"
        " Prometheus to scrape. Without samples and steps, analyze says that it knows too little,"
        " and the effect of a fault stays null in truth.json."
    )


def _emptied(out: Path) -> None:
    """Remove what was written; that the folder is ours stays until it is given back."""
    with suppress(OSError):
        for each in out.iterdir():
            if each.name != claim.FILE:
                shutil.rmtree(each) if each.is_dir() else each.unlink()
