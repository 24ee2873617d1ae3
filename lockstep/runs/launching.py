"""Which launcher starts the ranks of a run, and how its refusals are told."""

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from lockstep.collector.contract.metric_rows.host import NODE_INFO
from lockstep.collector.contract.words import ExitCode
from lockstep.runs import external_program
from lockstep.terminal.output import fail, note
from lockstep.workloads.launch.launcher import Handle, Launcher, LaunchError
from lockstep.workloads.launch.local import LocalLauncher
from lockstep.workloads.launch.mpirun.hostfile import HostfileError
from lockstep.workloads.launch.mpirun.launcher import MpirunLauncher
from lockstep.workloads.network.emulated import EmulatedNetwork
from lockstep.workloads.spec import DataError, RunSpec
from lockstep.workloads.tasks.registry import find

# Names of the hosts of a host file as nodes: as their collectors call them.
#
# In pods a host file has names of pods, while an alert must name a node. The launcher of an MPIJob
# sets VARIABLE; a collector in a pod is told its node's name (`collector.node_name`) and shows it.

VARIABLE = "LOCKSTEP_NODE_NAMES"
BY_COLLECTORS = "collectors"
SECONDS = 30.0
"""Pods are ready as soon as sshd answers; their collectors import a second or two longer."""
_INFO = re.compile(
    rf'^{NODE_INFO.name}\{{[^}}\n]*hostname="([A-Za-z0-9._-]{{1,253}})"'.encode(), re.MULTILINE
)


def ask(targets: Mapping[str, str], seconds: float = SECONDS) -> dict[str, str]:
    """Host -> name of its node, of those whose collector answered in time.

    Args:
        targets: Host -> "http://host:port" of its collector.
    """
    from lockstep.collector.recorder.recorder import FetchError, Target

    found: dict[str, str] = {}
    end = time.monotonic() + seconds
    while len(found) < len(targets) and time.monotonic() < end:
        for host in targets.keys() - found.keys():
            target = Target(targets[host])
            try:
                match = _INFO.search(target.get("/metrics", 2.0) or b"")
            except FetchError:
                match = None
            finally:
                target.close()
            if match is not None:
                found[host] = match[1].decode()
        if len(found) < len(targets):
            time.sleep(0.5)
    return found


def names(hosts: tuple[str, ...], known: Mapping[str, str]) -> tuple[str, ...]:
    """Of all hosts in their order; the hosts' own where two would be one, or one is not known.

    Half of them under other names would make two kinds of names of one run.
    """
    called = tuple(known.get(host, "") for host in hosts)
    return called if all(called) and len(set(called)) == len(hosts) else hosts


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

    Those of the host file, or in pods (`VARIABLE`) what their collectors say.

    Raises:
        CommandError: 65, the host file does not fit; 69, there is no mpirun.
    """

    def checked() -> tuple[str, ...]:
        launcher = MpirunLauncher(hostfile)
        launcher.check(nodes, ranks_per_node)
        if os.environ.get(VARIABLE) != BY_COLLECTORS:
            return launcher.hosts
        named = names(launcher.hosts, ask(launcher.targets()))
        if named == launcher.hosts:
            note("the hosts' collectors do not report their nodes' names: hosts are named")
        return named

    return exit_on_refusal(checked)


def pods_of(spec: RunSpec) -> tuple[str, ...]:
    """Pods of the nodes, in their order, where the MPI Operator wrote the host file; else none.

    Its hosts are `<pod>.<job>.<namespace>.svc` (mpi-operator v0.8, pkg/controller).
    """
    if spec.hostfile is None or os.environ.get(VARIABLE) != BY_COLLECTORS:
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
