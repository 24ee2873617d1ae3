"""Software that changed, or that one node has alone: driver, firmware, kernel by info series."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.align.versions import SOURCES
from lockstep.analyzer.causes.symptoms.series import Symptom, is_near, spans, tolerance
from lockstep.analyzer.shapes.run import Basis, Finding, Grid, Versions
from lockstep.analyzer.shapes.wording import listed
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stats.robust_stats import NEARLY_ALL, median_of

PEERS_AT_LEAST = 2
"""Other nodes that must agree before a node is the odd one: of two it is not known which is odd. If
all ranks of the one are slow it may be that, and it is a milder symptom."""


@dataclass(frozen=True, slots=True)
class Change:
    """A piece of software that became another on some nodes.

    Attributes:
        what: As lockstep.analyzer.align.versions.SOURCES calls it.
        before, after: Its commonest versions on either side.
        nodes: On which nodes.
        of: How many nodes report it.
        late: Seconds from the finding's onset to the change, median over the nodes.
    """

    what: str
    before: str
    after: str
    nodes: tuple[str, ...]
    of: int
    late: float

    @property
    def everywhere(self) -> bool:
        """On all nodes, or nearly."""
        return len(self.nodes) >= NEARLY_ALL * self.of

    @property
    def text(self) -> str:
        """What changed and where, in words."""
        where = f"all {self.of} nodes" if self.everywhere else listed(self.nodes)
        return f"the {self.what} changed from {self.before} to {self.after} on {where}"

    def symptom(self, grid: Grid, finding: Finding, words: str, *, seen: bool = True) -> Symptom:
        """What it is of a finding."""
        with_onset, near = abs(self.late) <= tolerance(grid), is_near(grid, finding, self.late)
        text = self.text + words
        return Symptom(seen, text, query(self.what), self.late, with_onset, near)


def changes(grid: Grid, finding: Finding) -> tuple[Change, ...]:
    """Every piece of software that changed in the run, the nearest change to the onset of each."""
    nodes = np.array([info.node for info in grid.ranks])
    changed = []
    for what, versions in grid.versions.items():
        moved = _nearest(versions.codes, finding.first)
        columns = np.flatnonzero(moved >= 0)
        if not columns.size:
            continue
        late = float(np.median(grid.start[moved[columns]] - grid.start[finding.first]))
        known = np.unique(nodes[(versions.codes >= 0).any(axis=0)])
        changed.append(
            Change(
                what,
                _commonest(versions, versions.codes[moved[columns] - 1, columns]),
                _commonest(versions, versions.codes[moved[columns], columns]),
                tuple(np.unique(nodes[columns]).tolist()),
                len(known),
                late,
            )
        )
    return tuple(changed)


def software(grid: Grid, finding: Finding) -> Symptom | None:
    """Software of the rank's node that its peers do not have; None without data.

    It explains a slowdown that began when the node's software changed and the others' did not, or
    one without onset on a node that differs from all others all along.
    """
    column = column_of(grid, finding.rank)
    if column is None or not grid.versions:
        return None
    node = grid.ranks[column].node
    has_onset = 0 < finding.first < len(grid.start) and not finding.details.get("from_start")
    symptoms: list[Symptom] = []
    for change in changes(grid, finding) if has_onset else ():
        if node in change.nodes:
            alone = len(change.nodes) == 1
            words = ", and on no other" if alone else ""
            seen = alone or not change.everywhere
            symptoms.append(change.symptom(grid, finding, words, seen=seen))
    if not any(symptom.explains for symptom in symptoms):
        symptoms += _odd(grid, finding, column, has_onset=has_onset)
    if symptoms:
        return max(symptoms, key=lambda symptom: (symptom.explains, symptom.seen))
    if not any((known.codes[:, column] >= 0).any() for known in grid.versions.values()):
        return None
    return Symptom(False, f"{node} runs the driver and the kernel of its peers", query("kernel"))


def mates_as_fast(grid: Grid, finding: Finding) -> Symptom | None:
    """Ranks that run the same software, on the same node, are not slow; None without others.

    They are not where they are nearer to their usual than to the rank's slowdown.
    """
    column, others = column_of(grid, finding.rank), ranks_of_node(grid, finding)
    if column is None or not others.size:
        return None
    during, before = spans(grid, finding)
    own, here = grid.time["own"], grid.ranks[column]
    if finding.first > 0 and before.any():
        normal = median_of(own[np.ix_(before, others)])
    else:
        away = [c for c, i in enumerate(grid.ranks) if i.node != here.node and i.pp == here.pp]
        normal = median_of(own[np.ix_(during, np.array(away, dtype=int))])
    grew = median_of(own[np.ix_(during, others)]) / normal - 1.0
    if not np.isfinite(grew):
        return None
    text = f"{len(others)} other ranks of {here.node} run the same software and are not slow"
    as_fast = bool(2.0 * grew <= finding.slowdown - 1.0)
    query = "own_seconds of steps.parquet by rank"
    return Symptom(as_fast, text if as_fast else "", query, basis=Basis.STEPS)


def everywhere(grid: Grid, finding: Finding) -> Symptom | None:
    """All nodes got other software as the run became slower; None without data."""
    if not grid.versions:
        return None
    moved = [change for change in changes(grid, finding) if change.everywhere]
    if not moved:
        return Symptom(False, "", query("kernel"))
    best = min(moved, key=lambda change: abs(change.late))
    when = " as the slowdown began"
    if abs(best.late) > tolerance(grid):
        side = "after" if best.late > 0 else "before"
        when = f" {abs(best.late):.0f} s {side} it began"
    return best.symptom(grid, finding, when)


def ranks_of_node(grid: Grid, finding: Finding) -> NDArray[np.int64]:
    """Columns of other ranks on the rank's node: they run the same software."""
    column = column_of(grid, finding.rank)
    if column is None:
        return np.empty(0, dtype=np.int64)
    node = grid.ranks[column].node
    same = [c for c, info in enumerate(grid.ranks) if info.node == node and c != column]
    return np.array(same, dtype=np.int64)


def query(what: str) -> str:
    """The PromQL that shows a piece of software by node."""
    metric, label = SOURCES[what]
    return f"count by (node, {label}) ({metric})"


def _odd(grid: Grid, finding: Finding, column: int, *, has_onset: bool) -> Iterator[Symptom]:
    """That all other nodes have another version than the rank's; of the first piece at most."""
    window = min(finding.first, len(grid.start) - 1)
    node = grid.ranks[column].node
    asked = 1 if finding.details.get("node") else PEERS_AT_LEAST
    # Where it was so before the onset as well, it is not what began then.
    late = float(grid.start[0] - grid.start[finding.first]) if has_onset else float("nan")
    began = False if has_onset else None
    for what, versions_of in grid.versions.items():
        codes = versions_of.codes[window]
        others = {
            info.node: int(codes[c]) for c, info in enumerate(grid.ranks)
            if info.node != node and codes[c] >= 0
        }  # fmt: skip
        versions = set(others.values())
        if len(others) < asked or len(versions) > 1 or codes[column] in (-1, *versions):
            continue
        mine, theirs = versions_of.words[codes[column]], versions_of.words[versions.pop()]
        words = f"{node} runs {what} {mine}, the other nodes run {theirs}"
        yield Symptom(True, words, query(what), late, began, grave=len(others) >= PEERS_AT_LEAST)
        return


def _nearest(codes: NDArray[np.int32], first: int) -> NDArray[np.int64]:
    """(R,) the window nearest to `first` from which a rank's version is another; -1 = never."""
    nearest = np.full(codes.shape[1], -1, dtype=np.int64)
    if len(codes) < 2:
        return nearest
    changed = (codes[1:] != codes[:-1]) & (codes[1:] >= 0) & (codes[:-1] >= 0)
    away = np.where(changed, np.abs(np.arange(1, len(codes)) - first)[:, None], len(codes) + 1)
    best = away.argmin(axis=0)
    there = changed[best, np.arange(codes.shape[1])]
    nearest[there] = best[there] + 1
    return nearest


def _commonest(versions: Versions, codes: NDArray[np.int32]) -> str:
    values, counts = np.unique(codes, return_counts=True)
    return versions.words[int(values[counts.argmax()])]
