"""`lockstep watch` as a process: its parts wired together, its signals, its end."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from lockstep.analyzer.hardware.sequential_test.false_alarms import BudgetError
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.rules.alert_rules.shape import Addresses
from lockstep.collector.config import ConfigError, address
from lockstep.collector.contract import threads
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.exporter.page import Form, render
from lockstep.runs import claim
from lockstep.terminal.interrupts import log_warnings, signals
from lockstep.terminal.output import data, fail, note
from lockstep.watch.deliver.delivery import Delivery
from lockstep.watch.loop import Watch
from lockstep.watch.serve import api as beside
from lockstep.watch.serve import pages
from lockstep.watch.serve.pages import addresses
from lockstep.watch.serve.server import ListenError, Reply, Request, Route, Server, host_check, text
from lockstep.watch.settings import Settings, of_path

MOST_BYTES = 4 << 20
STOP_SECONDS = 0.5
"""For a cycle under way; the process ends in a second."""
WORKERS = ("cycles", "archivist", "post-mortems", "standstills", "reports")
"""Names of threads that may be under way when the process ends; what they write is whole or not
there."""
ONCE_SECONDS = 60.0
"""For the archives of one cycle."""
LEAST_INTERVAL = 0.2
STATE_FILE = ".lockstep-watch"
"""Locked in the state folder for as long as a watch lives."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of the command line."""

    prometheus: str
    out: Path | None
    state: Path | None
    interval: float
    listen: str
    baselines: tuple[Path, ...]
    false_alarms: float
    announce: Path | None
    alertmanagers: tuple[str, ...] = ()
    webhook_token: Path | None = None


def serve(asked: Asked) -> int:
    """Watch until a signal comes; 130 for Ctrl-C, 0 for SIGTERM.

    Raises:
        CommandError: 64, a setting is wrong, or another watch has the state; 65, a baseline is no
            archive; 69, the address or a folder cannot be used.
    """
    log_warnings()
    where = addresses(os.environ)
    settings = _settings(asked)
    with _state_of_ours(settings.state):
        code = _serve(asked, settings, where)
    return _ended(code)


@contextmanager
def _state_of_ours(folder: Path | None) -> Iterator[None]:
    """Two that write one state would each lose what the other found.

    Raises:
        CommandError: 64, another watch has it.
    """
    if folder is None:
        yield
        return
    with claim.claim_folder(folder, STATE_FILE, "--state", locks=True):
        yield


def _serve(asked: Asked, settings: Settings, where: Addresses) -> int:
    watch = Watch(settings)
    delivery = Delivery(
        watch, asked.alertmanagers, asked.out, asked.webhook_token, where, asked.state
    )
    server = _server(
        asked.listen,
        [
            *_routes(watch),
            *delivery.routes,
            *pages.routes(asked.out, watch.told_of, watch.reports.trouble),
            *beside.routes(asked.out),
        ],
    )
    delivery.addresses = pages.served(where, server.address, asked.out, watch.url)
    ended = threading.Event()
    # A daemon: a cycle that waits for a slow Prometheus must not keep the process.
    cycles = threads.loop("cycles", partial(watch.run, ended), ended)
    with signals(ended) as came:
        watch.start()
        delivery.start()
        server.start()
        if asked.announce is not None:
            asked.announce.write_text(f"{server.address}\n")
        note(f"watching {watch.url}; http://{server.address}/metrics")
        cycles.start()
        ended.wait()
        cycles.join(STOP_SECONDS)
        delivery.stop()
        watch.stop()
        server.stop()
    return ExitCode.INTERRUPTED if signal.SIGINT in came else ExitCode.OK


def _ended(code: int) -> int:
    """The exit code; threads that are inside a library of C++ abort an interpreter that ends."""
    if any(thread.daemon and thread.name in WORKERS for thread in threading.enumerate()):
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    return code


def once(asked: Asked) -> int:
    """One cycle; sentences of what is open on stdout.

    Raises:
        CommandError: As `serve`.
    """
    log_warnings()
    settings = _settings(asked)
    with _state_of_ours(settings.state):
        return _once(settings)


def _once(settings: Settings) -> int:
    watch = Watch(settings)
    watch.start()
    answered = watch.cycle()
    if not watch.wait(ONCE_SECONDS):
        note("lockstep: an archive is not written yet; the next process writes it")
    watch.stop()
    if not answered:
        fail(ExitCode.UNREACHABLE, watch.trouble or "the cycle failed; the log says why")
    for line in watch.report():
        data(line)
    return watch.exit_code()


def _settings(asked: Asked) -> Settings:
    if not LEAST_INTERVAL <= asked.interval <= 3600:
        fail(
            ExitCode.USAGE,
            f"--interval {asked.interval:g} is not from {LEAST_INTERVAL:g} to 3600 seconds",
        )
    try:
        where = access(asked.prometheus)
        settings = Settings(
            access=where, out=asked.out, state=asked.state, interval=asked.interval,
            false_alarms=asked.false_alarms,
            baselines={
                kind: rate for each in asked.baselines for kind, rate in of_path(each).items()
            },
        )  # fmt: skip
        settings.budget(1)
    except RequestError as error:
        fail(ExitCode.USAGE, str(error))
    except BudgetError:
        fail(ExitCode.USAGE, f"--false-alarms {asked.false_alarms:g} is not above 0")
    for option, folder in (("--out", asked.out), ("--state", asked.state)):
        if folder is not None:
            _usable(option, folder)
    return settings


def _usable(option: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"{option} {folder} cannot be used: {error.strerror}")
    if not os.access(folder, os.W_OK | os.X_OK):
        fail(ExitCode.UNREACHABLE, f"{option} {folder} cannot be written to")


def _server(listen: str, routes: Sequence[Route]) -> Server:
    try:
        where = address("--listen", listen)
        return Server(where, routes, MOST_BYTES, host_check(where))
    except ConfigError as error:
        fail(ExitCode.USAGE, str(error))
    except ListenError as error:
        fail(ExitCode.UNREACHABLE, str(error))


def _routes(watch: Watch) -> tuple[Route, ...]:
    def metrics(_: Request) -> Reply:
        samples = [*watch.samples(), *threads.samples()]
        return HTTPStatus.OK, Form.TEXT.value, render(samples).encode("utf-8", "replace")

    def healthy(_: Request) -> Reply:
        why = watch.hangs() or threads.unhealthy()
        return text(HTTPStatus.SERVICE_UNAVAILABLE, why) if why else text(HTTPStatus.OK, "alive")

    return (
        Route("GET", "/metrics", metrics),
        Route("GET", "/-/healthy", healthy),
        Route("GET", "/healthz", healthy),
    )
