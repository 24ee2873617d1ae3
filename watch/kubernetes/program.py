"""`lockstep nodes` as a process: its parts wired together, its signals, its end."""

import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import ConfigError, address
from lockstep.collector.contract import threads
from lockstep.collector.contract.kubernetes import HEALTHY, NAMESPACE
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.exporter.page import Form, render
from lockstep.terminal.interrupts import log_warnings, signals
from lockstep.terminal.output import data, fail, grid, note
from lockstep.watch.kubernetes import watch_page as page_of_watch
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.conditions import value
from lockstep.watch.kubernetes.loop import (
    Acting,
    Settings,
    describe_write,
    lease_seconds,
)
from lockstep.watch.kubernetes.shapes import Decision, Mode, Node, SetupError, WatchState, Write
from lockstep.watch.serve.server import ListenError, Reply, Request, Route, Server, host_check, text


def lines(
    nodes: Sequence[Node], decision: Decision, watch_state: WatchState | None
) -> Iterable[str]:
    """A row for each node that may be touched; names come from the API, texts are printable."""
    writes = {one.node.name: one for one in decision.actions if isinstance(one, Write)}
    rows = [_row(node, writes.get(node.name), watch_state) for node in nodes]
    return grid(("node", "healthy", "faults", "what is new"), rows).splitlines()


def _row(
    node: Node, write: Write | None, watch_state: WatchState | None
) -> tuple[str, str, str, str]:
    conditions = {**node.conditions, **(write.conditions if write is not None else {})}
    healthy = conditions[HEALTHY].status.value if HEALTHY in conditions else "not written"
    open_now = () if watch_state is None else watch_state.faults.get(node.name, ())
    known = node.faults if write is None else write.faults
    faults = {one.id: value(one) for one in open_now} | {
        name: one.value for name, one in known.items()
    }
    return node.name, healthy, "; ".join(sorted(faults.values())) or "none", _new(write)


def _new(write: Write | None) -> str:
    if write is None:
        return "nothing"
    return describe_write(write) or "conditions"


STOP_SECONDS = 2.0
LEAST_INTERVAL = 0.2
MOST_INTERVAL = 60.0
"""A heartbeat is due every four minutes."""
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of the command line."""

    watch: str
    mode: str
    dry_run: bool
    kubeconfig: Path | None
    context: str | None
    selector: str
    namespace: str | None
    interval: float
    listen: str
    announce: Path | None


def serve(asked: Asked) -> int:
    """Act until a signal comes; 130 for Ctrl-C, 0 for SIGTERM.

    Raises:
        CommandError: 64, a setting is wrong; 65, the kubeconfig is; 69, the address cannot be
            used.
    """
    log_warnings()
    acting, cluster = _acting(asked)
    server = _server(asked.listen, acting)
    ended = threading.Event()
    cycles = threads.loop("cycles", partial(acting.run, ended), ended)
    with signals(ended) as came:
        server.start()
        if asked.announce is not None:
            asked.announce.write_text(f"{server.address}\n")
        note(f"{asked.mode} on {cluster.url}; http://{server.address}/metrics")
        cycles.start()
        ended.wait()
        cycles.join(STOP_SECONDS)
        acting.stop()
        server.stop()
    return ExitCode.INTERRUPTED if signal.SIGINT in came else ExitCode.OK


def once(asked: Asked) -> int:
    """One cycle; a table of the nodes on stdout.

    Returns:
        0 where every node is as it should be, 2 where one has a fault, 3 where something that
        should have been was not written.

    Raises:
        CommandError: As `serve`; 69 also where watch or the cluster does not answer.
    """
    log_warnings()
    acting, _ = _acting(asked)
    answered = acting.cycle()
    acting.stop()
    if not answered:
        fail(ExitCode.UNREACHABLE, acting.trouble)
    for line in lines(acting.nodes, acting.decision, acting.told):
        data(line)
    if acting.trouble:
        note(f"no finding was written: {acting.trouble}")
    if acting.trouble or acting.failed:
        return ExitCode.UNKNOWN
    return ExitCode.CULPRIT if acting.degraded() else ExitCode.OK


def cluster_of(asked: Asked) -> Cluster:
    """The cluster that was asked for.

    Raises:
        CommandError: 65, there is no way to it.
    """
    try:
        return Cluster(asked.kubeconfig, asked.context)
    except SetupError as error:
        fail(ExitCode.BAD_INPUT, str(error))


def namespace_of(asked: Asked) -> str:
    """Of the lease: as asked, else that of this pod, else the one that the chart has."""
    try:
        return asked.namespace or NAMESPACE_FILE.read_text("utf-8").strip() or NAMESPACE
    except OSError:
        return NAMESPACE


def _acting(asked: Asked) -> tuple[Acting, Cluster]:
    if asked.mode not in (Mode.OBSERVE, Mode.ANNOTATE):
        fail(
            ExitCode.USAGE,
            f"--mode {asked.mode} is not observe or annotate: taints, cordons and evictions are"
            " not done yet",
        )
    if asked.dry_run and asked.mode == Mode.OBSERVE:
        fail(ExitCode.USAGE, "--dry-run goes with --mode annotate: observe writes nothing anyway")
    if not LEAST_INTERVAL <= asked.interval <= MOST_INTERVAL:
        fail(
            ExitCode.USAGE,
            f"--interval {asked.interval:g} is not from {LEAST_INTERVAL:g} to"
            f" {MOST_INTERVAL:g} seconds",
        )
    try:
        page_of_watch.address(asked.watch)
    except ValueError as error:
        fail(ExitCode.USAGE, f"--watch {error}")
    cluster = cluster_of(asked)
    settings = Settings(
        asked.watch, Mode(asked.mode), asked.dry_run, asked.selector,
        namespace_of(asked), asked.interval, lease_seconds(asked.interval),
    )  # fmt: skip
    me = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    read = partial(page_of_watch.read, asked.watch)
    return Acting(settings, cluster, read, me, SystemClock().wall), cluster


def _server(listen: str, acting: Acting) -> Server:
    def metrics(_: Request) -> Reply:
        samples = [*acting.samples(), *threads.samples()]
        return HTTPStatus.OK, Form.TEXT.value, render(samples).encode("utf-8", "replace")

    def healthy(_: Request) -> Reply:
        why = threads.unhealthy()
        return text(HTTPStatus.SERVICE_UNAVAILABLE, why) if why else text(HTTPStatus.OK, "alive")

    routes = Route("GET", "/metrics", metrics), Route("GET", "/-/healthy", healthy)
    try:
        where = address("--listen", listen)
        return Server(where, routes, 0, host_check(where))
    except ConfigError as error:
        fail(ExitCode.USAGE, str(error))
    except ListenError as error:
        fail(ExitCode.UNREACHABLE, str(error))
