"""Which pages, nodes and readings are there: what a cycle has an answer about.

Nodes may be taken away on purpose, as by an autoscaler: nothing is expected of them. Prometheus
reports which pages it scrapes (`up`): a page whose scrape fails has a sample, one that its service
discovery dropped has none. A node that kube-state-metrics still lists lacks only its collector.
A node that is renamed while a finding about it is open keeps that finding.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.assessment import UNKNOWN
from lockstep.analyzer.findings.closable import Closable
from lockstep.analyzer.findings.finding import Detection
from lockstep.analyzer.findings.finding_lifecycle import Course
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.questions import OF_DIAGNOSIS
from lockstep.watch.judge.diagnoses import Judged
from lockstep.watch.judge.hardware import KEEP_SECONDS, Seen, Target
from lockstep.watch.judge.memory import Before, Memory
from lockstep.watch.judge.runs import Progress, advanced
from lockstep.watch.look.members import Members
from lockstep.watch.look.panel import (
    CLOCK,
    KNOWN,
    OWN,
    POWER,
    STEPS,
    TEMPERATURE,
    Speed,
    stream_names,
)
from lockstep.watch.look.snapshot import Look

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
DIAGNOSED = {least: f"{least} of what is diagnosed" for least in range(1, len(OF_DIAGNOSIS) + 1)}
"""How many metrics of `questions.OF_DIAGNOSIS` -> the word that so many are told: whichever goes
away takes the last word with it."""
OF_RANKS = frozenset((OWN, STEPS, KNOWN, *DIAGNOSED.values()))
"""What every rank tells; all else only those on a GPU."""
RANKS = "ranks"
"""Of a node: that a rank lives on it."""
FORGET_RANKS_SECONDS = 3600.0
"""A rank that is not reported for so long belongs to a run that ended."""


def of_targets(targets: Iterable[Target], members: Members) -> Bools:
    """(R,) whether a rank's page is one of these."""
    wanted = set(targets)
    pairs = zip(members.job.tolist(), members.instance.tolist(), strict=True)
    return np.fromiter((pair in wanted for pair in pairs), dtype=bool, count=len(members))


def with_reports(
    before: Before, readings: Mapping[str, Bools], members: Members, now: float
) -> Before:
    """With what is told now; what was not for a day is forgotten.

    Args:
        before: As it was.
        readings: Word -> (R,) whether it is told of the rank, its GPU, or by its page, now.
        members: Of all runs.
        now: Unix seconds.
    """
    found = {
        node: {word: when for word, when in words.items() if abs(now - when) < KEEP_SECONDS}
        for node, words in before.items()
    }
    for word, here in readings.items():
        for node in np.unique(members.node[here]).tolist():
            found.setdefault(node, {})[word] = now
    return {node: words for node, words in found.items() if words}


def missing_reports(before: Before, readings: Mapping[str, Bools], members: Members) -> Bools:
    """(R,) whether something is missing of a rank that its node, or that of a peer, tells.

    Args:
        before: What was told of each node, as `with_reports` has it.
        readings: As there.
        members: Of all runs.
    """
    found = np.zeros(len(members), dtype=bool)
    for columns in members.columns_of_run.values():
        nodes = set(members.node[columns].tolist())
        wanted = {word for node in nodes for word in before.get(node, ())}
        for word in wanted & readings.keys():
            applies = (members.uuid[columns] != "") | (word in OF_RANKS)
            found[columns] |= ~readings[word][columns] & applies
    return found


def with_ranks(before: Before, members: Members, up: Floats, now: float) -> Before:
    """With the nodes on which ranks live; those that are told to have ended are forgotten.

    A rank of which nobody tells any more has not ended: who is gone is told of for ten minutes.

    Args:
        before: As it was.
        members: Of all runs.
        up: (R,) 1 = its process is there, 0 = it is gone, NaN = not told.
        now: Unix seconds.
    """
    lives = set(members.node[up == 1].tolist())
    ended = set(members.node[up == 0].tolist()) - set(members.node[up != 0].tolist())
    found = {node: dict(words) for node, words in before.items()}
    for node in lives:
        found.setdefault(node, {})[RANKS] = now
    for node, words in found.items():
        if node in ended or now - words.get(RANKS, now) > FORGET_RANKS_SECONDS:
            words.pop(RANKS, None)
    return found


FRESH_CHECKS = 3
LEAST_FRESH_SECONDS = 45.0
"""What was scraped longer ago than both is not judged."""


def fresh_runs(seen: Look, interval: float) -> frozenset[str]:
    """Runs of which a page that was just scraped tells."""
    old = stale_after(interval)
    return frozenset(run for run, when in seen.told.items() if seen.now - when <= old)


def fresh_members(seen: Look, interval: float) -> NDArray[np.bool_]:
    """(R,) ranks whose page was just scraped, and tells of their run."""
    answers = of_targets(answering(seen, interval), seen.members)
    return answers & np.isin(seen.members.run, sorted(fresh_runs(seen, interval)))


def runs_now(
    seen: Look, speeds: Mapping[str, Speed], memory: Memory, interval: float
) -> dict[str, Progress]:
    """How each run goes; of one whose pages are old nothing new is known."""
    busy = {who.run for who, _ in memory.course.open}
    steps, runs = seen.panel.told["steps"][-1], dict(memory.runs)
    fresh = fresh_runs(seen, interval)
    for run, columns in seen.members.columns_of_run.items():
        most = float(np.nanmax(steps[columns])) if np.isfinite(steps[columns]).any() else 0.0
        known, seconds = runs.get(run), speeds[run].step_seconds
        if known is None or (most and run in fresh):
            runs[run] = advanced(known, most, seconds, run not in busy, seen.now)
        if not memory.nodes:
            runs[run] = replace(runs[run], begun=0.0)  # the first cycle of all
    return runs


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


def renamed(
    before: Mapping[str, str],
    known: Mapping[Target, tuple[str, float]],
    names: Mapping[Target, str],
    course: Course,
    another: Collection[Target] = (),
) -> dict[str, str]:
    """New name -> the name by which open findings call the node.

    A page that tells another name than before tells of the same node, unless another page has the
    old name now.

    Args:
        before: The same, in the cycle before.
        known: Target -> the name that it had, and when.
        names: Target -> the name that it has now.
        course: What is open.
        another: Targets behind which another machine is than before.
    """
    found, here = dict(before), set(names.values())
    for target, name in names.items():
        old = known[target][0] if target in known else name
        if old != name and old not in here and target not in another:
            found[name] = before.get(old, old)
    wanted = {who.node for who, _ in (*course.open, *course.waiting)}
    return {new: old for new, old in found.items() if old in wanted and new != old}


def gpus(members: Members) -> dict[Target, frozenset[str]]:
    """Target -> the GPUs (uuids) of the ranks that its page tells of, where they have some."""
    found: dict[Target, set[str]] = {}
    rows = zip(members.job.tolist(), members.instance.tolist(), members.uuid.tolist(), strict=True)
    for job, instance, uuid in rows:
        if uuid:
            found.setdefault((job, instance), set()).add(uuid)
    return {target: frozenset(some) for target, some in found.items()}


def other_machines(
    before: Mapping[Target, frozenset[str]], now: Mapping[Target, frozenset[str]]
) -> frozenset[Target]:
    """Targets whose address another machine has now, as of a pod: none of its GPUs is the same."""
    return frozenset(target for target, some in now.items() if not some & before.get(target, some))


def by_old_names(
    sightings: Iterable[Detection], names: Mapping[str, str], course: Course
) -> Iterator[Detection]:
    """Sightings of what is open already under the node's old name, by that name.

    Args:
        sightings: What is seen.
        names: As `renamed` has it.
        course: What is open.
    """
    for one in sightings:
        old = names.get(one.who.node or "")
        who = one.who if old is None else replace(one.who, node=old)
        key = who, one.tier
        yield replace(one, who=who) if key in course.open or key in course.waiting else one


LOG = logging.getLogger(__name__)

SILENT_SECONDS = 150.0
"""Two scrapes of a minute, and some: a page that was tried in this time is still scraped."""


def taken_away(
    connection: Connection, seen: Look, memory: Memory, interval: float
) -> dict[Target, str]:
    """Pages that nobody scrapes any more, and the nodes that they told of.

    Args:
        connection: To the Prometheus.
        seen: Of this cycle.
        memory: With the nodes that are expected.
        interval: Seconds between two cycles.
    """
    here, now = answering(seen, interval), seen.now
    quiet = {
        target: node for target, (node, when) in memory.nodes.items()
        if target not in here and now - when >= SILENT_SECONDS
    }  # fmt: skip
    if not quiet or not here:
        return {}
    jobs = sorted({job for job, _ in (*quiet, *here)})
    try:
        tried = {
            (labels.get("job", ""), labels.get("instance", "")): value
            for labels, value in connection.instant(
                ask.reached(jobs, SILENT_SECONDS), now, every=True
            )
        }
        if not any(tried.get(page) for page in here):
            return {}  # nobody says what is scraped
        gone = {target: node for target, node in quiet.items() if target not in tried}
        listed = _listed(connection, now) if gone else frozenset()
    except SourceError as error:
        LOG.info("whether nodes were taken away is unknown for now: %s", error)
        return {}
    kept = {memory.nodes[one][0] for one in here if one in memory.nodes} | listed
    return {target: node for target, node in gone.items() if node not in kept}


def old_names(
    memory: Memory, names: Mapping[Target, str], another: Collection[Target]
) -> frozenset[str]:
    """Names that no node has any more: the page that had one tells another of the same machine.

    Args:
        memory: With the names that were told before.
        names: Page -> the node that it tells now.
        another: Pages behind which another machine is than before.
    """
    here = frozenset(names.values())
    return frozenset(
        node for target, (node, _) in memory.nodes.items()
        if target in names and target not in another and node not in here
    )  # fmt: skip


def without(
    memory: Memory, gone: Mapping[Target, str], old: Collection[str] = frozenset()
) -> Memory:
    """A memory that expects nothing of nodes that were taken away, nor of names that were."""
    nodes = frozenset((*gone.values(), *old))
    inventory = memory.inventory

    def left(known: Seen) -> Seen:
        return {names: one for names, one in known.items() if names[0] not in nodes}

    return replace(
        memory,
        nodes={target: one for target, one in memory.nodes.items() if target not in gone},
        inventory=replace(
            inventory, nodes=left(inventory.nodes), links=left(inventory.links),
            ports=left(inventory.ports),
        ),
    )  # fmt: skip


def _listed(connection: Connection, now: float) -> frozenset[str]:
    """Nodes that kube-state-metrics tells of; none where it is not there."""
    answer = connection.instant(ask.NODES, now, every=True)
    return frozenset(labels.get("node", "") for labels, _ in answer)
