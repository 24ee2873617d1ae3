"""Options of `lockstep run` for launchers on a cluster, and what they say together."""

import math
import os
import re
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from lockstep.collector.contract.kubernetes import RUNS_ACCOUNT, RUNS_NAMESPACE
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.workloads.launch.kubernetes.settings import Settings


# When a scheduler was asked for this run, by its environment.

SUBMITTED = "LOCKSTEP_SUBMITTED"
"""Unix seconds or RFC 3339, of whoever asked for the run: a wrapper of sbatch, or
`{{workflow.creationTimestamp.RFC3339}}` of an Argo template."""
SLURM_JOB, SLURM_ACCOUNT = "SLURM_JOB_ID", "SLURM_JOB_ACCOUNT"
_SUBMIT_TIME = re.compile(r"\bSubmitTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\b", re.ASCII)
"""Of `scontrol show job`; local time of the cluster (slurm.schedmd.com/scontrol.html)."""
ASK_SECONDS = 5.0


def team(given: str | None, environment: Mapping[str, str]) -> str:
    """Whose the run is: as given, else the account of its Slurm job; empty = nobody says."""
    return (given or environment.get(SLURM_ACCOUNT, "")).strip()


def submitted(environment: Mapping[str, str]) -> datetime | None:
    """When it was asked for; None = nobody says, as for a run that nobody queued."""
    told = _moment(environment.get(SUBMITTED, ""))
    return told if told is not None else _by_slurm(environment.get(SLURM_JOB, ""))


def _moment(text: str) -> datetime | None:
    try:
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII):
            return datetime.fromtimestamp(float(text), UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else None


def _by_slurm(job: str) -> datetime | None:
    """What Slurm's controller says of the job that this process is in."""
    if not re.fullmatch(r"\d{1,12}", job, re.ASCII):
        return None
    try:
        answer = subprocess.run(
            ["scontrol", "show", "job", "-o", job],  # noqa: S607 - wherever the site has it
            capture_output=True, timeout=ASK_SECONDS,
            text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    found = _SUBMIT_TIME.search(answer)
    return None if found is None else datetime.fromisoformat(found[1]).astimezone(UTC)


DEFAULT_NAMESPACE, DEFAULT_CLAIM, DEFAULT_KIND = RUNS_NAMESPACE, RUNS_ACCOUNT, "mpijob"
RINGS = DEFAULT_RINGS, RINGS_IN_PODS = "node", "pod"
DEFAULT_TIMEOUT, DEFAULT_START_TIMEOUT = 3600.0, 900.0
"""An image of some GB takes minutes to pull."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What launchers on a cluster alone take, but for `launcher` itself."""

    PANEL: ClassVar = "With --launcher kubernetes or argo"

    image: Annotated[str | None, typer.Option(metavar="IMAGE", help="What every pod runs.")] = None
    analyzer_image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="For argo and --measure: of what reads the run."),
    ] = None
    kind: Annotated[
        str, typer.Option(help="mpijob (MPI Operator), or job (Indexed Job, torchrun).")
    ] = DEFAULT_KIND
    namespace: Annotated[str, typer.Option(help="Where the run is created.")] = DEFAULT_NAMESPACE
    claim: Annotated[
        str, typer.Option(help="The PersistentVolumeClaim that keeps the archive.")
    ] = DEFAULT_CLAIM
    queue: Annotated[
        str, typer.Option(metavar="NAME", help="LocalQueue of Kueue in which it waits for quota.")
    ] = ""
    queue_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="It waits so long in --queue; default for ever."),
    ] = None
    rings: Annotated[
        str, typer.Option(help="Rings of ranks on their node, or pod = inside of their pods.")
    ] = DEFAULT_RINGS
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the cluster; default as kubectl.")
    ] = None
    kube_context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")
    ] = None
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Of the run, once its pods run; then it is ended."),
    ] = DEFAULT_TIMEOUT
    start_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Within which all pods must run.")
    ] = DEFAULT_START_TIMEOUT
    measure: Annotated[
        bool, typer.Option("--measure", help="Analyze, report and measure it there; argo does so.")
    ] = False
    submission: Annotated[
        str | None, typer.Option(hidden=True, metavar="MARK", help="Of the chain it is a step of.")
    ] = None


ONLY = tuple(each.name for each in fields(ClusterOptions))
"""Parameters of `lockstep run` that launchers on a cluster alone take."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[\w][\w./:@-]{0,254}", re.ASCII)
_MARK = re.compile(r"[A-Za-z0-9]{1,63}", re.ASCII)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,50}", re.ASCII)
TRAINER, ANALYZER = "lockstep-workloads", "lockstep-watch"
"""Images of this project, by name."""


def refuse_without_cluster(launcher: str, given: Mapping[str, str]) -> None:
    """Refuse what only a cluster takes.

    Args:
        given: Parameter -> option, of those on the command line.

    Raises:
        CommandError: 64, with the options that must go.
    """
    others = [given[name] for name in ONLY if name in given]
    if others:
        fail(
            ExitCode.USAGE,
            f"{' and '.join(others)} {'is' if len(others) == 1 else 'are'} for --launcher"
            f" kubernetes or argo, not for {launcher}; leave {'it' if len(others) == 1 else 'them'}"
            " out",
        )


def settings(launcher: str, options: ClusterOptions) -> "Settings":
    """What a run on a cluster is asked to be.

    Raises:
        CommandError: 64, with the option that is wrong and what would be right.
    """
    from lockstep.workloads.launch.kubernetes import settings as cluster
    from lockstep.workloads.spec import SpecError, one_of

    if not options.image:
        fail(
            ExitCode.USAGE,
            f"--launcher {launcher} needs --image: what every pod runs, as REGISTRY/{TRAINER}:TAG",
        )
    for option, told in (("--image", options.image), ("--analyzer-image", options.analyzer_image)):
        if told is not None and not _IMAGE.fullmatch(told):
            fail(ExitCode.USAGE, f"{option} {told!r} is no image; give REGISTRY/NAME:TAG")
    named = [("--namespace", options.namespace), ("--claim", options.claim)]
    for option, name in [*named, *([("--queue", options.queue)] if options.queue else [])]:
        if not _NAME.fullmatch(name):
            fail(
                ExitCode.USAGE,
                f"{option} {name!r} is no name on a cluster; it has at most 63 small letters,"
                " digits and dashes",
            )
    limits = {"--timeout": options.timeout, "--start-timeout": options.start_timeout}
    if options.queue_timeout is not None:
        limits["--queue-timeout"] = options.queue_timeout
        if not options.queue:
            fail(ExitCode.USAGE, "--queue-timeout is about --queue; give that, too, or neither")
    for option, seconds in limits.items():
        if not (math.isfinite(seconds) and seconds >= 1.0):
            fail(ExitCode.USAGE, f"{option} {seconds:g} must be at least 1 second")
    try:
        one_of("kind", options.kind, tuple(cluster.Kind))
        one_of("rings", options.rings, RINGS)
    except SpecError as error:
        fail(ExitCode.USAGE, str(error))
    chosen, chain = cluster.Kind(options.kind), launcher == "argo"
    if chain and chosen is cluster.Kind.JOB:
        fail(
            ExitCode.USAGE,
            "--launcher argo analyzes the archive, which only an MPIJob leaves; leave --kind job"
            " out",
        )
    if options.measure and chosen is cluster.Kind.JOB:
        fail(
            ExitCode.USAGE,
            "--measure reads the archive, which only an MPIJob leaves; leave --measure out, or"
            " --kind job",
        )
    reads = chain or options.measure
    if not reads and options.analyzer_image is not None:
        fail(
            ExitCode.USAGE,
            "--analyzer-image is for --launcher argo or --measure; leave it out, or add --measure",
        )
    if options.submission is not None and not _MARK.fullmatch(options.submission):
        fail(ExitCode.USAGE, f"--submission {options.submission!r} is no mark; letters and digits")
    return cluster.Settings(
        image=options.image,
        analyzer_image=options.analyzer_image or (analyzer_beside(options.image) if reads else ""),
        namespace=options.namespace, kind=chosen, claim=options.claim, chain=chain,
        timeout=options.timeout, start_timeout=options.start_timeout,
        host_rings=options.rings != RINGS_IN_PODS,
        submission=options.submission or secrets.token_hex(8), step=options.submission is not None,
        submitted=(submitted(os.environ) or datetime.now(UTC)).isoformat(),
        queue_timeout=math.inf if options.queue_timeout is None else options.queue_timeout,
        queue=options.queue, measured=options.measure and not chain,
    )  # fmt: skip


def analyzer_beside(image: str) -> str:
    """The analyzer's image, by that of the ranks: the same registry and tag.

    Raises:
        CommandError: 64, it cannot be told: another name, or a digest, which is that image's alone.
    """
    place, _, last = image.rpartition("/")
    name, colon, tag = last.partition(":")
    if name != TRAINER or "@" in last:
        fail(
            ExitCode.USAGE,
            f"--image {image} does not show what analyzes the run; give"
            f" --analyzer-image REGISTRY/{ANALYZER}:TAG",
        )
    return f"{place}/{ANALYZER}{colon}{tag}".removeprefix("/")


def checked_run_id(run: str) -> str:
    """A run id that some other launcher chose.

    Raises:
        CommandError: 64, it is none.
    """
    if not _RUN_ID.fullmatch(run):
        fail(ExitCode.USAGE, f"--run-id {run!r} is no run id; letters, digits and dashes, up to 51")
    return run
