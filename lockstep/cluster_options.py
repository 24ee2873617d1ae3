"""Options of `lockstep run` for launchers on a cluster, and what they say together."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collector.contract.kubernetes import NAMESPACE, RUNS_ACCOUNT
from collector.contract.words import ExitCode
from lockstep.output import fail

if TYPE_CHECKING:
    from workloads.launchers.kubernetes.settings import Settings

Image = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="On a cluster: what every pod runs.")
]
Namespace = Annotated[str, typer.Option(help="On a cluster: where the run is created.")]
Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="On a cluster: which; default as kubectl.")
]
KubeContext = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="One of the kubeconfig's.")
]
Kind = Annotated[
    str, typer.Option(help="On a cluster: mpijob (MPI Operator), or job (Indexed Job, torchrun).")
]
Claim = Annotated[
    str, typer.Option(help="On a cluster: the PersistentVolumeClaim that keeps the archive.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="On a cluster: it ends the run by itself then.")
]
StartTimeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="On a cluster: within which all pods must run.")
]
RunId = Annotated[str | None, typer.Option(hidden=True, help="Of a launcher that chose it.")]

DEFAULT_NAMESPACE, DEFAULT_CLAIM, DEFAULT_KIND = NAMESPACE, RUNS_ACCOUNT, "mpijob"
DEFAULT_TIMEOUT, DEFAULT_START_TIMEOUT = 3600.0, 900.0
"""An image of some GB takes minutes to pull."""
ONLY = ("image", "namespace", "kubeconfig", "kube_context", "kind", "claim", "timeout",
        "start_timeout")  # fmt: skip
"""Parameters of `lockstep run` that launchers on a cluster alone take."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[\w][\w./:@-]{0,254}", re.ASCII)
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


def settings(
    launcher: str, *, image: str | None, namespace: str, kind: str, claim: str, timeout: float,
    start_timeout: float,
) -> "Settings":  # fmt: skip
    """What a run on a cluster is asked to be.

    Raises:
        CommandError: 64, with the option that is wrong and what would be right.
    """
    from workloads.launchers.kubernetes import settings as cluster
    from workloads.spec import SpecError, one_of

    if not image:
        fail(
            ExitCode.USAGE,
            f"--launcher {launcher} needs --image: what every pod runs, as REGISTRY/{TRAINER}:TAG",
        )
    if not _IMAGE.fullmatch(image):
        fail(ExitCode.USAGE, f"--image {image!r} is no image; give REGISTRY/NAME:TAG")
    for option, name in (("--namespace", namespace), ("--claim", claim)):
        if not _NAME.fullmatch(name):
            fail(
                ExitCode.USAGE,
                f"{option} {name!r} is no name on a cluster; it has at most 63 small letters,"
                " digits and dashes",
            )
    for option, seconds in (("--timeout", timeout), ("--start-timeout", start_timeout)):
        if not (math.isfinite(seconds) and seconds >= 1.0):
            fail(ExitCode.USAGE, f"{option} {seconds:g} must be at least 1 second")
    try:
        one_of("kind", kind, tuple(cluster.Kind))
    except SpecError as error:
        fail(ExitCode.USAGE, str(error))
    chosen, chain = cluster.Kind(kind), launcher == "argo"
    if chain and chosen is cluster.Kind.JOB:
        fail(
            ExitCode.USAGE,
            "--launcher argo analyzes the archive, which only an MPIJob leaves; leave --kind job"
            " out",
        )
    return cluster.Settings(
        image=image, analyzer_image=image.replace(TRAINER, ANALYZER), namespace=namespace,
        kind=chosen, claim=claim, chain=chain, timeout=timeout,
        start_timeout=start_timeout,
    )  # fmt: skip


def checked_run_id(run: str) -> str:
    """A run id that some other launcher chose.

    Raises:
        CommandError: 64, it is none.
    """
    if not _RUN_ID.fullmatch(run):
        fail(ExitCode.USAGE, f"--run-id {run!r} is no run id; letters, digits and dashes, up to 51")
    return run
