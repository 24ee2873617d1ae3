"""The hardware of some GPUs as a Prometheus recorded it, for jobs without training series."""

import re
from collections.abc import Iterable

import pandas as pd

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.discovery import moment
from lockstep.analyzer.read.prometheus.frames import samples_frame
from lockstep.analyzer.read.prometheus.questions import gpu_targets
from lockstep.analyzer.read.prometheus.ranges import fetch
from lockstep.analyzer.read.ranks import UUID

Gpu = tuple[str, int]
"""(node, index)."""
USUAL_SECONDS = 3600.0
"""Before the end, without `--since`."""
MOST_INDEX = 1023
"""A larger index belongs to nobody."""
PART = re.compile(r"(?:(?P<node>[^\s,]+):)?(?P<first>\d{1,4})(?:-(?P<last>\d{1,4}))?")
SHOWN = 8


def gpu_list(text: str) -> tuple[Gpu, ...]:
    """`node-1:0-7,node-2:0,3` as (node, index) of each GPU.

    Raises:
        RequestError: It is not written like that.
    """
    found: list[Gpu] = []
    node = ""
    for word in text.split(","):
        part = PART.fullmatch(word.strip())
        node = (part["node"] or node) if part else ""
        if part is None or not node:
            raise RequestError(f"--gpus {word!r} is no GPU; write them as node-1:0-7,node-2:0,3")
        first = int(part["first"])
        last = first if part["last"] is None else int(part["last"])
        if not first <= last <= MOST_INDEX:
            raise RequestError(f"--gpus {word!r} must count up, to {MOST_INDEX} at most")
        found += [(node, index) for index in range(first, last + 1)]
    return tuple(dict.fromkeys(found))


def hardware(
    connection: Connection, gpus: Iterable[Gpu], since: str | None, until: str | None
) -> pd.DataFrame:
    """contract.archive.SAMPLES of the nodes of some GPUs, without anybody's training series.

    A node is called as the target's label `node`, as its instance, or as the host in that.

    Args:
        connection: To the Prometheus.
        gpus: Which.
        since: As discovery.moment; None = USUAL_SECONDS before the end.
        until: None = now.

    Raises:
        RequestError: No such moment, or none of the nodes reports GPUs; the message says which do.
        SourceError: Prometheus does not answer.
    """
    now = connection.now()
    end = now if until is None else moment(until, now, "--until")
    start = end - USUAL_SECONDS if since is None else moment(since, now, "--since")
    if start >= end:
        raise RequestError("--since is not before --until; nothing lies between")
    wanted = list(dict.fromkeys(node for node, _ in gpus))
    targets: dict[str, list[str]] = {}
    others: list[str] = []
    for labels, _ in connection.instant(gpu_targets(end - start), end):
        job, instance = labels.get("job", ""), labels.get("instance", "")
        names = (labels.get("node") or instance, instance)
        if any(_called(name, wanted) for name in names):
            targets.setdefault(job, []).append(instance)
        else:
            others.append(names[0])
    if not targets:
        asked, there = (", ".join(sorted(set(some))[:SHOWN]) for some in (wanted, others))
        raise RequestError(
            f"{connection.url} has no GPU of {asked} then; it has GPUs of {there or 'none at all'}"
        )
    unique = {job: sorted(set(instances)) for job, instances in targets.items()}
    samples = samples_frame(fetch(connection, "", unique, start, end).series)
    told = {str(name): _called(str(name), wanted) or str(name) for name in samples["node"].unique()}
    return samples.assign(node=samples["node"].map(told)).drop(columns=UUID)


def _called(name: str, wanted: list[str]) -> str | None:
    """The name that was asked for and means this node."""
    return next((one for one in (name, name.rpartition(":")[0]) if one in wanted), None)
