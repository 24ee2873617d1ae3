"""Whose state a cycle knows: who answers, who is over, and whom a diagnosis looked at."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.assessment import UNKNOWN
from lockstep.analyzer.findings.closable import Closable
from lockstep.watch.judge.hardware import Target
from lockstep.watch.judge.memory import Memory
from lockstep.watch.judge.panel import CLOCK, KNOWN, OWN, POWER, STEPS, TEMPERATURE, stream_names
from lockstep.watch.judge.reporting import DIAGNOSED, of_targets
from lockstep.watch.loop.judged import Judged
from lockstep.watch.loop.look import Look

FRESH_CHECKS = 3
LEAST_FRESH_SECONDS = 45.0
"""What was scraped longer ago than both is not judged."""
KEEP_SECONDS = 86_400.0
"""As inventory.KEEP_SECONDS: of a node that is silent for longer nothing is expected any more."""


def fresh_runs(seen: Look, interval: float) -> frozenset[str]:
    """Runs of which a page that was just scraped tells."""
    old = stale_after(interval)
    return frozenset(run for run, when in seen.told.items() if seen.now - when <= old)


def fresh_members(seen: Look, interval: float) -> NDArray[np.bool_]:
    """(R,) ranks whose page was just scraped, and tells of their run."""
    answers = of_targets(answering(seen, interval), seen.members)
    return answers & np.isin(seen.members.run, sorted(fresh_runs(seen, interval)))


class Gauges:
    """When what is watched of each rank was told last: not every check finds a new scrape."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, float]] = {}

    def told_now(self, seen: Look, interval: float) -> dict[str, NDArray[np.bool_]]:
        """What is told of each rank and its GPU, (R,) each: as `watch.told` has it."""
        members, since = seen.members, seen.now - stale_after(interval)
        lost = {(labels.get("job", ""), labels.get("instance", "")) for labels, _ in seen.lost}
        found = {
            "errors": of_targets(seen.error_pages, members),
            "lost GPUs": of_targets(lost, members),
        }
        found |= {word: seen.telling >= least for least, word in DIAGNOSED.items()}
        names = stream_names(members)
        for word in (OWN, STEPS, KNOWN, CLOCK, TEMPERATURE, POWER):
            told, times = np.isfinite(seen.panel.told[word]), seen.panel.times[:, None]
            newest = np.where(told, times, -np.inf).max(axis=0)
            here = zip(names.tolist(), newest.tolist(), strict=True)
            before = self._told.get(word, {})
            known = {name: max(when, before.get(name, -np.inf)) for name, when in here}
            self._told[word] = {name: when for name, when in known.items() if when >= since}
            found[word] = np.isin(names, sorted(self._told[word]))
        return found


def closable(
    seen: Look,
    memory: Memory,
    last: Mapping[str, Judged],
    missing: NDArray[np.bool_],
    interval: float,
    window: float,
) -> Closable:
    """What this cycle may close.

    Args:
        seen: What Prometheus told.
        memory: With the nodes and pages as `remembered` has them.
        last: The last diagnosis of each run.
        missing: (R,) whether something of a rank's GPU is not told that was before.
        interval: Seconds between two cycles.
        window: Seconds for which a diagnosis is believed.
    """
    answer = answering(seen, interval)
    nodes = {memory.nodes[one][0] for one in answer if one in memory.nodes}
    silent = {node for node, _ in memory.nodes.values()} - nodes
    diagnosed = {
        run: one.at
        for run, one in last.items()
        if seen.now - one.at <= window and one.verdict.status != UNKNOWN
    }
    dark = seen.members.node[missing]
    moving = {
        run
        for run, columns in seen.members.columns_of_run.items()
        if (seen.step_rate[columns] > 0).all()
    }
    runs = set(fresh_runs(seen, interval))
    for who, _ in (*memory.course.open, *memory.course.waiting):
        # A run is over when its nodes answer and do not tell of it, not when they are silent.
        answered = bool(answer & memory.pages.get(who.run, frozenset()))
        if who.run and who.run not in seen.told and (answered or who.run not in memory.runs):
            runs.add(who.run)
            diagnosed[who.run] = seen.now
    return Closable(
        seen.now, frozenset(runs | {""}) if answer else frozenset(runs), diagnosed,
        frozenset(silent), frozenset(dark.tolist()), frozenset(moving), seen.blind,
    )  # fmt: skip


def remembered(
    known: Mapping[Target, tuple[str, float]],
    names: Mapping[Target, str],
    seen: Look,
    interval: float,
) -> dict[Target, tuple[str, float]]:
    """Target -> its node and when it answered last: those of the last day."""
    kept = {one: told for one, told in known.items() if seen.now - told[1] < KEEP_SECONDS}
    for target in answering(seen, interval):
        kept[target] = names[target], seen.now
    return kept


def answering(seen: Look, interval: float) -> frozenset[Target]:
    """Pages that were just scraped."""
    old = stale_after(interval)
    return frozenset(
        (labels.get("job", ""), labels.get("instance", ""))
        for labels, when in seen.pages
        if seen.now - when <= old
    )


def stale_after(interval: float) -> float:
    """Seconds after which what was told is old."""
    return max(LEAST_FRESH_SECONDS, FRESH_CHECKS * interval)
