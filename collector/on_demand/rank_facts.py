"""What the sensors of a node last read of its ranks, in the words of `evidence.json`.

Nothing is asked anew: samples are those of the page, and errors what the kernel log and the driver
told. The process table alone is looked at now.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.words import RankState
from lockstep.collector.files.opening import read_bytes
from lockstep.collector.readings.kernel import Fall, Trouble, XidEvent
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sources.gpu.xid.source import Told, Xids
from lockstep.collector.sources.ranks.owners import Rank

SOURCES = (
    "rank_ring", "nvml", "dcgm", "dcgm_exporter", "nccl_ras", "xid", "kmsg",
)  # fmt: skip
"""Whose readings tell of ranks that stand still."""
BEFORE_SECONDS = m.RANK_GONE_SECONDS
"""An error counts that came at most so long before the rank's last progress: evidence is shown for
as long as a rank that is gone."""
MAX_LINES = 8
"""Lines of the kernel log about one rank, the newest."""

_RESETS = frozenset(
    action for action, words in m.RECOVERY_ACTIONS.items() if "reset" in words or "reboot" in words
)
_PROCESS = re.compile(r"Killed process (\d+)|task [^:]{1,32}:(\d+) blocked|\[[^\]:]{1,32}:(\d+)\]")
"""Of whom the kernel tells (mm/oom_kill.c, kernel/hung_task.c, kernel/watchdog.c)."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What sources last told; both may be empty.

    Attributes:
        samples: Of the page.
        errors: Of the kernel log and the driver.
    """

    samples: tuple[Sample, ...] = ()
    errors: tuple[Told, ...] = ()


def heard(sampler: Sampler) -> Heard:
    """What the sources of a collector last told."""
    source = sampler.source(Xids.name)
    errors = source.recent() if isinstance(source, Xids) else ()
    return Heard(tuple(sample for part in sampler.snapshot() for sample in part), errors)


def facts(ranks: Sequence[Rank], heard: Heard, proc: Path, clock: Clock) -> list[dict[str, Any]]:
    """Rows of `facts` in `evidence.json`, by rank; what nobody tells is left out.

    Args:
        ranks: Of one run on this node.
        heard: From the sources of this node.
        proc: The process table.
        clock: For ages.
    """
    samples: dict[str, list[Sample]] = {}
    for sample in heard.samples:
        samples.setdefault(sample.metric.name, []).append(sample)
    rows: list[tuple[int, str, str]] = []
    for rank in ranks:
        number = rank.key[1]
        every = (
            *_process(rank, proc, clock),
            *_gpu(rank, samples),
            *_errors(rank, heard.errors, clock),
        )
        rows += ((number, kind, value) for kind, value in every)
    rows += _ras(ranks, samples)
    return [
        {"rank": number, "kind": kind, "value": value}
        for number, kind, value in dict.fromkeys(rows)
    ]


def _process(rank: Rank, proc: Path, clock: Clock) -> Iterator[tuple[str, str]]:
    """The letter of proc_pid_stat(5), or that it is gone; how it ended; its heartbeat's age."""
    state = "gone" if not rank.up else "" if rank.pid is None else _state(proc, rank.pid)
    if state:
        yield "process-state", state
    if not rank.up:
        # Its own last word; how a process ended that could not say it, its parent alone knows.
        if rank.header.state is RankState.FINISHED:
            yield "exited", "0"
        return
    silence = clock.monotonic() - rank.header.heartbeat_ns / 1e9
    yield "heartbeat-age", f"{max(0.0, silence):.1f}"


def _state(proc: Path, pid: int) -> str:
    """Its letter; "" = not told."""
    try:
        text = read_bytes(proc / str(pid) / "stat", 4096)
    except SourceError as error:
        return "gone" if error.reason == "missing" else ""
    fields = text.rpartition(b")")[2].split()
    return fields[0].decode("ascii", "replace") if fields else ""


def _gpu(rank: Rank, samples: dict[str, list[Sample]]) -> Iterator[tuple[str, str]]:
    """Whether its GPU answers; nothing where no source reads it."""

    def said(metric: m.Metric) -> float | None:
        mine = (
            sample.value for sample in samples.get(metric.name, ()) if _is_of(rank, sample.labels)
        )
        return next(mine, None)

    up, stalled, action = said(m.GPU_UP), said(m.GPU_STALLED), said(m.GPU_RECOVERY_ACTION)
    if stalled:
        yield "gpu-state", "not responding"
    elif up == 0:
        yield "gpu-state", "lost"
    elif action in _RESETS:
        yield "gpu-state", "requires reset"
    elif up == 1:
        yield "gpu-state", "answers"


def _is_of(rank: Rank, labels: tuple[str, ...]) -> bool:
    """Whether labels that begin with a GPU and its uuid are of the rank's device."""
    who = rank.header.identity
    if who.uuid:
        return labels[1] == who.uuid
    return who.gpu is not None and labels[0] == str(who.gpu)


def _errors(rank: Rank, errors: Iterable[Told], clock: Clock) -> Iterator[tuple[str, str]]:
    """What the kernel log and the driver reported of its GPU, its process and the whole node."""
    since = max(_began(rank), _progress(rank) - BEFORE_SECONDS)
    rows: list[tuple[str, str]] = []
    for error in errors:
        event = error.event
        if not since <= event.monotonic <= clock.monotonic():
            continue
        mine = _is_of(rank, (error.gpu, error.uuid)) if error.gpu or error.uuid else False
        match event:
            case XidEvent(xid=number, text=text) if mine:
                rows.append(("xid", f"{number} {text}".strip()))
            case Fall() if mine:
                rows.append(("gpu-state", "fallen off the bus"))
            case Trouble(text=text) if mine or _concerns(rank, event):
                rows.append(("kernel", text))
    yield from rows[-MAX_LINES:]


def _concerns(rank: Rank, event: Trouble) -> bool:
    """Whether a line is about this rank's process, or about nothing less than the whole node."""
    match = _PROCESS.search(event.text)
    if match is not None:
        pid = int(next(filter(None, match.groups())))
        return pid in (rank.pid, rank.header.identity.pid)
    return not event.device


def _began(rank: Rank) -> float:
    """When its process started, in seconds of CLOCK_MONOTONIC."""
    who = rank.header.identity
    return (who.start_wall_ns - who.wall_minus_monotonic_ns) / 1e9


def _progress(rank: Rank) -> float:
    live = rank.header.live
    return (rank.header.heartbeat_ns if live is None else live.progress_ns) / 1e9


def _ras(ranks: Sequence[Rank], samples: dict[str, list[Sample]]) -> Iterator[tuple[int, str, str]]:
    """Of all ranks of the run: who holds its rank 0 sees them all.

    A communicator's ranks are those of the run where it has as many.
    """
    for run, world in {(ring.key[0], ring.header.identity.world) for ring in ranks}:
        whole = {
            sample.labels[1]
            for sample in samples.get(m.NCCL_COMMUNICATOR_SIZE.name, ())
            if sample.labels[0] == run and sample.value == world
        }
        for sample in samples.get(m.NCCL_RANK_STATE.name, ()):
            told_run, group, rank, state = sample.labels
            if sample.value and told_run == run and group in whole and rank.isdecimal():
                yield int(rank), "ras", state
