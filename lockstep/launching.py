"""Which launcher starts the ranks of a run, and how its refusals are told."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from collector.contract.words import ExitCode
from lockstep import foreign
from lockstep.output import fail
from workloads.launchers import Handle, Launcher, LaunchError
from workloads.launchers.local import LocalLauncher
from workloads.launchers.mpirun import MpirunLauncher
from workloads.launchers.mpirun.hostfile import HostfileError
from workloads.network.emulated import EmulatedNetwork
from workloads.spec import RunSpec

T = TypeVar("T")


def launched(
    spec: RunSpec, workspace: Path, logs: Path, network: EmulatedNetwork | None
) -> Handle:  # fmt: skip
    """Start every rank. Forks: no thread may run yet.

    Raises:
        CommandError: 65, the host file does not fit; 69, the ranks cannot be started.
    """
    return refused(lambda: _launcher(spec, workspace, network).launch(spec, workspace, logs))


def hosts_of(hostfile: Path | None, nodes: int, ranks_per_node: int) -> tuple[str, ...]:
    """Names of the hosts that mpirun will use; empty without a host file.

    Raises:
        CommandError: 65, the host file does not fit; 69, there is no mpirun.
    """

    def checked() -> tuple[str, ...]:
        launcher = MpirunLauncher(hostfile)
        launcher.check(nodes, ranks_per_node)
        return launcher.hosts

    return refused(checked)


def targets(spec: RunSpec) -> dict[str, str]:
    """Addresses of collectors that run on the hosts already, by node; empty for this machine."""
    if spec.hostfile is None:
        return {}
    return refused(lambda: MpirunLauncher(Path(spec.hostfile or "")).targets())


def refused(call: Callable[[], T]) -> T:
    """What a call returns.

    Raises:
        CommandError: A launcher refused.
    """
    try:
        return call()
    except HostfileError as error:
        fail(ExitCode.BAD_INPUT, str(error))
    except LaunchError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"the ranks cannot be started: {error}")


def _launcher(spec: RunSpec, workspace: Path, network: EmulatedNetwork | None) -> Launcher:
    if spec.program:
        return foreign.launcher(spec.program, spec.step_pattern, spec.run, workspace)
    if spec.launcher == "mpirun":
        return MpirunLauncher(None if spec.hostfile is None else Path(spec.hostfile))
    return LocalLauncher(network)
