"""A run that a Prometheus recorded, diagnosed; what goes wrong as a sentence and an exit code."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail, note

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


def diagnose_prometheus(
    url: str,
    run: str,
    since: str | None = None,
    until: str | None = None,
    gpu_hour_price: float | None = None,
    *,
    push_down: bool | None = None,
    topology: Path | None = None,
    node_labels: Sequence[str] = (),
) -> "Diagnosis":
    """Loads and diagnoses a run from a Prometheus, and says which way it was read.

    Args:
        url: Its address.
        run: The run's id.
        since: A date, unix seconds or how long ago; None = the run's begin.
        until: Likewise; None = the run's end.
        gpu_hour_price: Money per GPU-hour, in any currency; None = cost in hours only.
        push_down: Read the ranks that its recording rules single out, and some peers; None =
            where the run is large and the rules are there.
        topology: A topology.toml; what it says counts before what Kubernetes says.
        node_labels: KIND=LABEL, Kubernetes labels that say where nodes stand.

    Raises:
        CommandError: 64, no such run, rules, moment or price; 65, no topology; 69, Prometheus
            cannot be asked.
    """
    if gpu_hour_price is not None and not math.isfinite(gpu_hour_price):
        fail(ExitCode.USAGE, f"--gpu-hour-price {gpu_hour_price} is not a price; give a number")
    from lockstep.analyzer.read import places
    from lockstep.analyzer.read.prometheus.access import RequestError, SourceError
    from lockstep.analyzer.read.prometheus.kubernetes import with_own
    from lockstep.analyzer.read.prometheus.load import load_prometheus
    from lockstep.analyzer.rules.recording_rules import diagnosis
    from lockstep.analyzer.shapes.run import LoadError
    from lockstep.analyzer.verdict import pipeline

    try:
        known = {} if topology is None else places.read(topology)
        labels = with_own(node_labels)
        if push_down is None:
            push_down = _chosen(url, run, since, until)
        if run:
            _tell_who_answers(url)
        if push_down:
            return diagnosis.diagnose_outliers(
                url, run, since, until, gpu_hour_price=gpu_hour_price, known=known,
                node_labels=labels,
            )  # fmt: skip
        recorded = load_prometheus(url, run, since, until, node_labels=labels)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))
    except RequestError as error:
        fail(ExitCode.USAGE, str(error))
    except SourceError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    where = places.merged(places.places_of(recorded.meta), known)
    recorded = dataclasses.replace(recorded, meta={**recorded.meta, places.META_KEY: where})
    return pipeline.diagnose(recorded, gpu_hour_price=gpu_hour_price)


def _chosen(url: str, run: str, since: str | None, until: str | None) -> bool:
    """Whether the rules are asked, told on stderr.

    Raises:
        RequestError, SourceError: As prometheus.load.
    """
    from lockstep.analyzer.read.prometheus.access import access
    from lockstep.analyzer.read.prometheus.connection import Connection
    from lockstep.analyzer.rules.recording_rules.diagnosis import choose

    if not run:
        return False  # which is refused with the right words
    with Connection(access(url, None)) as connection:
        chosen = choose(connection, run, since, until)
    option = "--no-push-down reads all" if chosen.push_down else "--push-down reads less"
    note(f"lockstep: {chosen.why} ({option})")
    return chosen.push_down


def _tell_who_answers(url: str) -> None:
    """On stderr: what answers otherwise than a Prometheus, and whose series count.

    Raises:
        RequestError, SourceError: As prometheus.load.
    """
    from lockstep.analyzer.read.prometheus.access import access
    from lockstep.analyzer.read.prometheus.connection import Connection

    with Connection(access(url, None)) as connection:
        server, replicas = connection.server(), connection.replicas(connection.now())
    if server.differs:
        note(f"lockstep: {server.name} answers: {server.differs}")
    if replicas.words:
        note(f"lockstep: {replicas.words}")
