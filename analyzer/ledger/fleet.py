"""Reliability of runs, nodes and the fleet, as ledgers saw them."""

from collections.abc import Sequence

import numpy as np

from lockstep.analyzer.ledger.buckets import INDEX, PRODUCTIVE, RUNNING, Bucket
from lockstep.analyzer.ledger.ledger import Ledger
from lockstep.analyzer.ledger.reliability import Estimate, Reliability, mean, mtbf, ratio
from lockstep.analyzer.read.iteration_log import UNNAMED
from lockstep.analyzer.shapes.run import FloatGrid


def of_run(told: Ledger) -> Reliability:
    """Of one run: failures of attempts, in the wall time of its attempts.

    Its shares are counted, not estimated: they have no interval.
    """
    return Reliability(
        told.failures,
        told.running_seconds,
        int(np.isfinite(told.repairs).sum()),
        mtbf(told.failures, told.running_seconds),
        mean(told.repairs),
        goodput=_share([told.seconds.sum(axis=0)], PRODUCTIVE),
        ettr=_share([told.seconds.sum(axis=0)], RUNNING),
    )


def of_fleet(ledgers: Sequence[Ledger]) -> Reliability:
    """Of all runs together: failures in the time in which any of them ran.

    Runs side by side share their time: it is the length of the union of all attempts. Availability
    is running time over wall time of the runs. Intervals of shares are by runs.
    """
    failures = sum(one.failures for one in ledgers)
    running = _together([(each.begin, each.end) for one in ledgers for each in one.attempts])
    repairs = [(told, number) for number, one in enumerate(ledgers) for told in one.repairs]
    known = [(told, number) for told, number in repairs if np.isfinite(told)]
    up = np.array([one.running_seconds for one in ledgers])
    walls = np.array([one.wall_seconds for one in ledgers])
    return Reliability(
        failures,
        running,
        len(known),
        mtbf(failures, running),
        mean([told for told, _ in known], [number for _, number in known]),
        ratio(np.minimum(up, walls), walls),
        _share([one.seconds.sum(axis=0) for one in ledgers], PRODUCTIVE),
        _share([one.seconds.sum(axis=0) for one in ledgers], RUNNING),
    )


def _share(units: Sequence[FloatGrid], buckets: Sequence[Bucket]) -> Estimate:
    """Of the rank-seconds of all units together, (len(BUCKETS),) each, what is in some buckets."""
    places = [INDEX[bucket] for bucket in buckets]
    table = np.array(units).reshape(-1, len(INDEX))
    return ratio(table[:, places].sum(axis=1), table.sum(axis=1))


def _together(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of spans of time."""
    length, reach = 0.0, -np.inf
    for begin, end in sorted(spans):
        length += max(end - max(begin, reach), 0.0)
        reach = max(reach, end)
    return float(length)


def of_node(ledgers: Sequence[Ledger]) -> Reliability:
    """Of a node: attempts that a rank of it ended, in the running time of all nodes.

    Failures of which nobody knows the node are not counted: it is at most this MTBF. A repair is of
    the nodes that had ended the attempt. Intervals of shares are by nodes, and of repairs by
    repairs: one that two nodes needed tells how long one repair takes, not two.
    """
    failures, exposure = 0, 0.0
    nodes: dict[str, FloatGrid] = {}
    repairs: list[float] = []
    for one in ledgers:
        for attempt in one.attempts:
            there = {info.node for info in attempt.run.ranks} - {UNNAMED}
            exposure += attempt.seconds * len(there)
            if attempt.failed and attempt.ending is not None:
                failures += len(attempt.ended_by - {UNNAMED})
        for name, spent in one.by_node.items():
            if name != UNNAMED:
                nodes[name] = nodes.get(name, np.zeros(len(INDEX))) + spent
        repairs += [
            took for took, names in zip(one.repairs, one.repaired_from, strict=True)
            if names - {UNNAMED} and np.isfinite(took)
        ]  # fmt: skip
    return Reliability(
        failures,
        exposure,
        len(repairs),
        mtbf(failures, exposure),
        mean(repairs),
        goodput=_share(list(nodes.values()), PRODUCTIVE),
        ettr=_share(list(nodes.values()), RUNNING),
    )
