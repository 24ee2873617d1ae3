"""Whose state a cycle knows: who answers, who is over, and whom a diagnosis looked at."""

from collections.abc import Mapping

from analyzer.watch.hardware import Target
from analyzer.watch.judged import Judged
from analyzer.watch.memory import Memory
from lockstep.watching.diagnoses import Judged as Diagnosis
from lockstep.watching.look import Look

FRESH_CHECKS = 3
LEAST_FRESH_SECONDS = 45.0
"""What was scraped longer ago than both is not judged."""
KEEP_SECONDS = 86_400.0
"""As inventory.KEEP_SECONDS: of a node that is silent for longer nothing is expected any more."""


def fresh_runs(seen: Look, interval: float) -> frozenset[str]:
    """Runs of which a page that was just scraped tells."""
    old = _old(interval)
    return frozenset(run for run, when in seen.told.items() if seen.now - when <= old)


def judged(
    seen: Look, memory: Memory, last: Mapping[str, Diagnosis], interval: float, window: float
) -> Judged:
    """What this cycle may close.

    Args:
        seen: What Prometheus told.
        memory: With the nodes and pages as `remembered` has them.
        last: The last diagnosis of each run.
        interval: Seconds between two cycles.
        window: Seconds for which a diagnosis is believed.
    """
    answering = _answering(seen, interval)
    nodes = {memory.nodes[one][0] for one in answering if one in memory.nodes}
    silent = {node for node, _ in memory.nodes.values()} - nodes
    diagnosed = {run: one.at for run, one in last.items() if seen.now - one.at <= window}
    runs = set(fresh_runs(seen, interval))
    for who, _ in (*memory.course.open, *memory.course.waiting):
        # A run is over when its nodes answer and do not tell of it, not when they are silent.
        answered = bool(answering & memory.pages.get(who.run, frozenset()))
        if who.run and who.run not in seen.told and (answered or who.run not in memory.runs):
            runs.add(who.run)
            diagnosed[who.run] = seen.now
    return Judged(
        seen.now, frozenset(runs | {""}) if answering else frozenset(runs), diagnosed,
        frozenset(silent), seen.blind,
    )  # fmt: skip


def remembered(
    known: Mapping[Target, tuple[str, float]],
    names: Mapping[Target, str],
    seen: Look,
    interval: float,
) -> dict[Target, tuple[str, float]]:
    """Target -> its node and when it answered last: those of the last day."""
    kept = {one: told for one, told in known.items() if seen.now - told[1] < KEEP_SECONDS}
    for target in _answering(seen, interval):
        kept[target] = names[target], seen.now
    return kept


def _answering(seen: Look, interval: float) -> frozenset[Target]:
    old = _old(interval)
    return frozenset(
        (labels.get("job", ""), labels.get("instance", ""))
        for labels, when in seen.pages
        if seen.now - when <= old
    )


def _old(interval: float) -> float:
    return max(LEAST_FRESH_SECONDS, FRESH_CHECKS * interval)
