"""Runs without an archive, diagnosed: from a Prometheus, from a trace, from readings of GPUs alone.

What goes wrong is a sentence and an exit code.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail, note

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.operations import Trace
    from lockstep.analyzer.shapes.run import Verdict
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
    """Whether the rules are asked; stderr says why.

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


def diagnose_trace(
    path: Path,
    layout: str | None = None,
    meta: Path | None = None,
    gpu_hour_price: float | None = None,
) -> "Verdict":
    """Loads and judges a trace.

    Args:
        path: The Parquet file.
        layout: As `dp=4,pp=4,tp=4`; None with `meta` or as the rows show.
        meta: The trace's meta file.
        gpu_hour_price: Money per GPU-hour, in any currency; None = cost in hours only.

    Raises:
        CommandError: 64, the layout or price is none; 65, the file is no such trace.
    """
    if gpu_hour_price is not None and not math.isfinite(gpu_hour_price):
        fail(ExitCode.USAGE, f"--gpu-hour-price {gpu_hour_price} is not a price; give a number")
    from lockstep.analyzer.verdict.pipeline import diagnose

    return diagnose(read_trace(path, layout, meta), gpu_hour_price=gpu_hour_price).verdict


def read_trace(path: Path, layout: str | None = None, meta: Path | None = None) -> "Trace":
    """Loads a trace; arguments and errors as `diagnose_trace`."""
    from lockstep.analyzer.read.optrace.load import load_trace, parse_layout, read_meta
    from lockstep.analyzer.shapes.run import LoadError

    try:
        shape = None if layout is None else parse_layout(layout)
    except LoadError as error:
        fail(ExitCode.USAGE, str(error))
    try:
        shape = shape if meta is None else read_meta(meta)
        return load_trace(path, shape)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))


def diagnose_hardware(
    url: str, gpus: str, since: str | None = None, until: str | None = None
) -> "Verdict":
    """The verdict about the GPUs of a job without training metrics; its confidence is at most 0.7.

    Args:
        url: Of the Prometheus.
        gpus: As `node-1:0-7,node-2:0,3`.
        since: A date, unix seconds or how long ago; None = an hour before the end.
        until: Likewise; None = now.

    Raises:
        CommandError: 64, no such GPUs or moment; 69, Prometheus cannot be asked.
    """
    from lockstep.analyzer.hardware.anomalies.uninstrumented import uninstrumented
    from lockstep.analyzer.read.prometheus.access import RequestError, SourceError, access
    from lockstep.analyzer.read.prometheus.connection import Connection
    from lockstep.analyzer.read.prometheus.hardware import gpu_list, hardware

    try:
        job = gpu_list(gpus)
        with Connection(access(url, None)) as connection:
            samples = hardware(connection, job, since, until)
    except RequestError as error:
        fail(ExitCode.USAGE, str(error))
    except SourceError as error:
        fail(ExitCode.UNREACHABLE, str(error))
    return uninstrumented(gpus, samples, job)
