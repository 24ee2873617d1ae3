"""Which launcher starts the ranks of a run, and how its refusals are told."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lockstep.collector.contract.words import ExitCode
from lockstep.runs import external_program, node_names
from lockstep.terminal.output import fail, note
from lockstep.workloads.launch.launcher import Handle, Launcher, LaunchError
from lockstep.workloads.launch.local import LocalLauncher
from lockstep.workloads.launch.mpirun.hostfile import HostfileError
from lockstep.workloads.launch.mpirun.launcher import MpirunLauncher
from lockstep.workloads.network.emulated import EmulatedNetwork
from lockstep.workloads.spec import DataError, RunSpec
from lockstep.workloads.tasks.registry import find

T = TypeVar("T")
SYNTHETIC = "synthetic"
"""What run.json says of data that are made for the run; which ones may stand behind a colon."""


def start_ranks(
    spec: RunSpec, workspace: Path, logs: Path, network: EmulatedNetwork | None
) -> Handle:  # fmt: skip
    """Start every rank. Forks: no thread may run yet.

    Raises:
        CommandError: 65, the host file does not fit or the data are wrong; 69, the ranks cannot be
            started.
    """
    return exit_on_refusal(
        lambda: _launcher(spec, workspace, network).launch(spec, workspace, logs)
    )


def look_at_data(spec: RunSpec, workspace: Path, on_start: Callable[[], None]) -> None:
    """Prepare the user's own data: what is wrong with them is found before anything starts.

    The launcher prepares them once more, which takes no time then. Synthetic data are left to it,
    and data on other hosts to their ranks.

    Args:
        on_start: Called first, where there is something to prepare.

    Raises:
        CommandError: 65, the data are wrong; 69, what is made of them cannot be written.
    """
    task = find(spec.workload)
    if spec.program or spec.hosts:
        return

    def prepare() -> None:
        kind, _, _ = str(task.about(spec)["data"]).partition(": ")
        if kind != SYNTHETIC:
            on_start()
            task.prepare(spec, workspace)

    exit_on_refusal(prepare, "the data cannot be prepared")


def hosts_of(hostfile: Path | None, nodes: int, ranks_per_node: int) -> tuple[str, ...]:
    """Names of the nodes that mpirun will use; empty without a host file.

    Those of the host file, or in pods (`node_names.VARIABLE`) what their collectors say.

    Raises:
        CommandError: 65, the host file does not fit; 69, there is no mpirun.
    """

    def checked() -> tuple[str, ...]:
        launcher = MpirunLauncher(hostfile)
        launcher.check(nodes, ranks_per_node)
        if os.environ.get(node_names.VARIABLE) != node_names.BY_COLLECTORS:
            return launcher.hosts
        named = node_names.names(launcher.hosts, node_names.ask(launcher.targets()))
        if named == launcher.hosts:
            note("the hosts' collectors do not tell what their nodes are called: hosts are named")
        return named

    return exit_on_refusal(checked)


def pods_of(spec: RunSpec) -> tuple[str, ...]:
    """Pods of the nodes, in their order, where the MPI Operator wrote the host file; else none.

    Its hosts are `<pod>.<job>.<namespace>.svc` (mpi-operator v0.8, pkg/controller).
    """
    if spec.hostfile is None or os.environ.get(node_names.VARIABLE) != node_names.BY_COLLECTORS:
        return ()
    hosts = exit_on_refusal(lambda: MpirunLauncher(Path(spec.hostfile or "")).hosts)
    return tuple(host.partition(".")[0] for host in hosts)


def collector_addresses(spec: RunSpec) -> dict[str, str]:
    """Addresses of collectors that run on the hosts already, by node; empty for this machine."""
    if spec.hostfile is None:
        return {}
    targets = exit_on_refusal(lambda: MpirunLauncher(Path(spec.hostfile or "")).targets())
    # In the host file's order, as the names of the nodes are.
    return dict(zip(spec.hosts or targets, targets.values(), strict=True))


def exit_on_refusal(call: Callable[[], T], what: str = "the ranks cannot be started") -> T:
    """What a call returns.

    Args:
        what: Begins the sentence about a file or process that could not be made.

    Raises:
        CommandError: A launcher refused, or the data are wrong.
    """
    try:
        return call()
    except (HostfileError, DataError) as error:
        fail(ExitCode.BAD_INPUT, str(error))
    except LaunchError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"{what}: {error}")


def _launcher(spec: RunSpec, workspace: Path, network: EmulatedNetwork | None) -> Launcher:
    if spec.program:
        return external_program.launcher(spec.program, spec.step_pattern, spec.run, workspace)
    if spec.launcher == "mpirun":
        return MpirunLauncher(None if spec.hostfile is None else Path(spec.hostfile))
    return LocalLauncher(network)
