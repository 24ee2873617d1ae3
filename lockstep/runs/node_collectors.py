"""One collector process for each emulated node of a local run."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail
from lockstep.terminal.processes import stop

if TYPE_CHECKING:
    from lockstep.collector.recorder.recorder import Recorder
    from lockstep.workloads.network.emulated import EmulatedNetwork

START_SECONDS = 20.0
STOP_SECONDS = 5.0
SETTLE_SECONDS, SETTLE_SECONDS_OF_OTHERS = 0.6, 1.1
"""collector.recorder.Recorder's: a period of these collectors, and of those in service (1 s), and a
bit."""
FAST_PERIOD = "500ms"
"""Local runs last a minute: twice the samples of a node in service."""


class NodeCollectors:
    """Starts a collector for every node on a free port, and ends them all.

    Each sees its own node's rings only, and ends by itself if this process is killed.

    Args:
        nodes: Their names.
        workspace: Folder of the run's rings.
        logs: Folder of the run's logs.
        network: Its nodes' namespaces, where each collector runs and listens on the management
            network; None = all run on the loopback of this machine.
    """

    def __init__(
        self, nodes: list[str], workspace: Path, logs: Path,
        network: "EmulatedNetwork | None" = None,
    ) -> None:  # fmt: skip
        self._network = network
        self._nodes = nodes
        self._workspace = workspace
        self._logs = logs
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        for index, node in enumerate(self._nodes):
            (self._workspace / node).mkdir(parents=True, exist_ok=True)
            arguments = [
                *self._place(index),
                *(sys.executable, "-m", "lockstep.collector"),
                *("--listen", f"{self._host(index)}:0", "--node", node),
                *("--die-with-parent", str(os.getpid())),
                *("--fast-period", FAST_PERIOD),
                *("--lockstep-dir", str(self._workspace / node)),
                *("--announce", str(self._announcement(node))),
            ]
            with (self._logs / f"collector-{node}.log").open("wb") as log:
                self._processes[node] = subprocess.Popen(
                    arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    process_group=0,  # Ctrl-C goes to us; we say when a collector ends
                )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stop(list(self._processes.values()), STOP_SECONDS)

    def recorder(
        self, archive: Path, run: str, others: Mapping[str, str] | None = None
    ) -> "Recorder":
        """A recorder of all nodes, once every collector has said where it listens.

        Args:
            others: Collectors that run already, by node.

        Raises:
            CommandError: 69, a collector did not start.
        """
        from lockstep.collector.clock import SystemClock
        from lockstep.collector.recorder.recorder import Recorder

        started = {node: f"http://{self._address(node)}" for node in self._nodes}
        settle = SETTLE_SECONDS_OF_OTHERS if others else SETTLE_SECONDS
        targets = {**started, **(others or {})}
        return Recorder(targets, archive, run, SystemClock(), settle=settle)

    def _host(self, index: int) -> str:
        return "127.0.0.1" if self._network is None else self._network.collector_address(index)

    def _place(self, index: int) -> list[str]:
        """The words before a command that let it run inside a node's namespace."""
        if self._network is None:
            return []
        scratch = self._workspace / f"{self._nodes[index]}.sys"
        scratch.mkdir(exist_ok=True)
        namespace = self._network.namespace(index)
        return [sys.executable, "-m", "lockstep.workloads.network", namespace, str(scratch), "--"]

    def _announcement(self, node: str) -> Path:
        return self._workspace / f"{node}.address"

    def _address(self, node: str) -> str:
        deadline = monotonic() + START_SECONDS
        while monotonic() < deadline and self._processes[node].poll() is None:
            if self._announcement(node).exists():
                return self._announcement(node).read_text().strip()
            sleep(0.02)
        log = self._logs / f"collector-{node}.log"
        return fail(ExitCode.UNREACHABLE, f"the collector of {node} did not start; see {log}")
