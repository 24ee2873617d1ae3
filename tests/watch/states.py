"""States of what one cycle of watch reads, with one input taken away: what does watch say then?

A state is a small world at a moment: healthy, slow, hanging, silent, with a hardware error, or
known in part. It is judged twice by the same watch: as it is, and without one input. What is said
with less may not be more certain or more innocent, and the first page of the dashboard may not be
green.
"""

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lockstep.analyzer.findings.finding import Tier, WatchFinding, Who
from lockstep.analyzer.hardware.sequential_test.state import State
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.servers import PROMETHEUS, Server
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import (
    FLEET_METRICS,
    Answer,
    FindingRow,
    FleetSnapshot,
    RunRow,
    Severity,
    Span,
)
from lockstep.dashboard.sources.prometheus.findings import said
from lockstep.dashboard.sources.prometheus.runs import RunStatus
from lockstep.dashboard.words import now as first_page
from lockstep.watch.cycle import Cycles, Outcome
from lockstep.watch.judge.memory import Memory
from lockstep.watch.serve import metrics as page
from lockstep.watch.settings import Settings
from tests.analyzer.claims import ACCUSED, UNKNOWN, Charge, Claim, bolder, claim
from tests.watch.fake_prometheus import SCRAPE, START, FakePrometheus

WARM = 24
"""Cycles before the state, as many as watch needs to know a healthy run."""
AFTER = 5
"""Cycles without the input: longer than what was told before is fresh."""
RANKS = range(4)
ALIKE = 0.02
SOMEBODY = "somebody"
LOOKS_HEALTHY = 0.9
"""Of a node's score, as alert QuarantineStuck has it; below, one is only accused less surely."""


class Direct:
    """A connection without a network: analyzer.read.prometheus.connection.Connection."""

    url = "http://fake"
    replica_labels = ()
    over, samples = Connection.over, Connection.samples

    def __init__(self, fake: FakePrometheus) -> None:
        self.fake = fake

    def now(self) -> float:
        return self.fake.now

    def _manners(self) -> Server:
        return PROMETHEUS

    def counted(self, query: str, time: float) -> str:
        return query

    def instant(
        self, query: str, time: float, *, every: bool = False, within: object = None
    ) -> list[tuple[Mapping[str, str], float]]:
        _, body = self.fake.answer("/query", {"query": query, "time": f"{time:.3f}"})
        told = json.loads(body)["data"]["result"]
        return [(dict(one["metric"]), float(one["value"][1])) for one in told]

    def body(self, path: str, words: Mapping[str, str]) -> bytes:
        return self.fake.answer(f"/{path}", dict(words))[1]

    def targets(self) -> list[Mapping[str, str]]:
        return []

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class Scene:
    """A watch and its world at a moment."""

    fake: FakePrometheus
    cycles: Cycles
    outcome: Outcome | None = None

    def look(self, times: int) -> None:
        for _ in range(times):
            self.fake.now += SCRAPE
            self.outcome = self.cycles.next(Direct(self.fake))  # type: ignore[arg-type]

    def samples(self) -> list[Any]:
        assert self.outcome is not None
        known, memory = self.outcome.known, self.cycles.memory
        return [
            *page.of_runs(known, memory.runs),
            *page.of_findings(self.findings(), known.looked),
        ]

    def findings(self) -> list[WatchFinding]:
        return list(self.cycles.memory.course.open.values())


@dataclass(frozen=True)
class Says:
    """All that watch says of the run, and the colour of the dashboard's first sentence.

    Attributes:
        status: Of the run; UNKNOWN where it is not told.
        verdict: The claim of its last diagnosis.
        named: That of the open findings.
        slow: Rank -> own time over its peers, from 1.1 on.
        health: Node -> its score.
    """

    status: str
    verdict: Claim
    named: Claim
    slow: Mapping[str, float] = field(default_factory=dict)
    health: Mapping[str, float] = field(default_factory=dict)
    colour: Severity = Severity.UNKNOWN


def says(scene: Scene) -> Says:
    """What the watch of a scene says now."""
    told: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in scene.samples():
        told.setdefault(sample.metric.name, {})[tuple(sample.labels)] = sample.value
    statuses = [labels[1] for labels in told.get(m.RUN_STATUS.name, ())]
    last = scene.cycles.diagnoses.last.get(scene.fake.run)
    nodes = {scene.fake.node.format(rank): (rank,) for rank in RANKS}
    ratios = {rank: v for (_, rank), v in told.get(m.RANK_STRAGGLER.name, {}).items()}
    return Says(
        status=statuses[0] if statuses else UNKNOWN,
        verdict=Claim(UNKNOWN) if last is None else claim(last.verdict, nodes),
        named=_claim(scene.findings()),
        slow={rank: ratio for rank, ratio in ratios.items() if ratio >= 1.1},
        health={node: score for (node,), score in told.get(m.NODE_HEALTH.name, {}).items()},
        colour=_colour(scene, told, ratios),
    )


def _claim(findings: list[WatchFinding]) -> Claim:
    """A finding about the whole run names nobody; it says only that somebody is to be named."""
    sure = sorted(findings, key=lambda one: (one.tier == Tier.PAGE, one.confidence))
    charges = [(one.who, Charge(one.cause, one.confidence, one.tier)) for one in sure]
    named = {} if not charges else {SOMEBODY: charges[-1][1]}
    named |= {
        who.words: charge for who, charge in charges if who != Who(who.run, None, None, None, None)
    }
    return Claim(ACCUSED, named) if named else Claim(UNKNOWN)


def _colour(
    scene: Scene, told: Mapping[str, Mapping[tuple[str, ...], float]], ratios: Mapping[str, float]
) -> Severity:
    """Of the first page over Prometheus: rows as dashboard.sources.prometheus makes them."""
    assert scene.outcome is not None
    run, seen = scene.fake.run, scene.outcome.look
    lives = (run,) in told.get(m.RUN_ACTIVE.name, {})
    given = [RunStatus(*labels[1:]) for labels in told.get(m.RUN_STATUS.name, ())]
    status, sentence = said(run, (), given[0] if given else None, None, ended=False)
    row = RunRow(
        run, "running" if lives else "ended", Span(START, seen.now), ranks=len(RANKS),
        status=status, sentence=sentence,
    )  # fmt: skip
    findings = [
        FindingRow(
            one.folder, Severity.CRITICAL if one.tier is Tier.PAGE else Severity.WARNING, True,
            one.who.run, one.who.node or "", one.who.gpu, one.who.rank, one.who.link or "",
            one.cause, one.confidence, one.slowdown, one.onset, None, one.sentence,
        )
        for one in scene.findings()
    ]  # fmt: skip
    fresh = [when for _, when in seen.pages if seen.now - when <= 3 * SCRAPE]
    expected = len(scene.cycles.memory.inventory.nodes)
    answer = Answer(
        "fake", True, max((when for _, when in seen.pages), default=None), seen.now, SCRAPE,
        (expected, len(fresh)),
    )  # fmt: skip
    values = np.array([ratios.get(str(rank), math.nan) for rank in RANKS], np.float32)
    fleet = FleetSnapshot(
        FLEET_METRICS[0], seen.now, np.array([scene.fake.node.format(rank) for rank in RANKS]),
        np.zeros(len(RANKS), np.int32), np.array(RANKS, np.int32),
        np.array([run if lives else ""] * len(RANKS)), values,
    )  # fmt: skip
    return first_page.headline([row], findings, answer, fleet).severity


def scene(dice: np.random.Generator, kind: str = "") -> tuple[str, Scene]:
    """A world of a kind, else of one drawn at random, and a watch that looked at it for a while."""
    fake = FakePrometheus()
    fake.now = START + 1200.0 + float(dice.integers(0, 600))
    kind = kind or str(dice.choice(tuple(KINDS)))
    fake.bare = kind == "healthy" and bool(dice.random() < 0.3)
    settings = Settings(access("http://fake", {}), None, None)
    made = Scene(fake, Cycles(settings, State.new(), Memory()))
    before = int(dice.integers(2, WARM))
    made.look(before)
    KINDS[kind](fake, dice)
    made.look(WARM - before + int(dice.integers(0, 8)))
    return kind, made


def _slow(fake: FakePrometheus, dice: np.random.Generator) -> None:
    fake.slow = (int(dice.integers(4)), float(dice.uniform(1.2, 2.0)), fake.now)


def _gone(fake: FakePrometheus, dice: np.random.Generator) -> None:
    fake.gone = (int(dice.integers(4)), fake.now)


def _silent(fake: FakePrometheus, dice: np.random.Generator) -> None:
    fake.silent = ({int(dice.integers(4))}, fake.now)


def _error(fake: FakePrometheus, dice: np.random.Generator) -> None:
    rank = int(dice.integers(4))
    labels = {**fake._target(rank), "gpu": "0", "uuid": f"GPU-{rank}", "xid": "79"}
    fake.xids = [(labels, fake.now)]


def _untimed(fake: FakePrometheus, dice: np.random.Generator) -> None:
    fake.untimed = (set(dice.choice(4, int(dice.integers(1, 5)), replace=False)), fake.now)
    if dice.random() < 0.5:
        _slow(fake, dice)


def _healthy(fake: FakePrometheus, dice: np.random.Generator) -> None:
    pass


KINDS: Mapping[str, Callable[[FakePrometheus, np.random.Generator], None]] = {
    "healthy": _healthy, "slow rank": _slow, "hang": _gone, "silent node": _silent,
    "hardware error": _error, "known in part": _untimed,
}  # fmt: skip

Removal = Callable[[Scene], None]
METRICS = (
    m.RANK_INFO, m.RANK_UP, m.TRAIN_STEPS, m.TRAIN_OWN, m.TRAIN_KNOWN_STEPS, m.BUILD_INFO,
    *ask.OF_DIAGNOSIS,
)  # fmt: skip
OF_GPUS = (
    m.GPU_CLOCK, m.GPU_TEMPERATURE, m.GPU_POWER, m.GPU_EXPECTED, m.GPU_PRESENT, m.GPU_XID_ERRORS,
)  # fmt: skip
QUERIES = (
    ask.INFOS, ask.LIVING, ask.TOLD, ask.PAGES, ask.STEPS, ask.OWN, ask.KNOWN, ask.TELLING,
    ask.own_seconds_query(300.0),
    ask.rate(m.TRAIN_STEPS, 300.0),
)  # fmt: skip
QUERIES_OF_GPUS = (
    ask.LOST, ask.XIDS, ask.gauge(m.GPU_CLOCK, 'domain="sm",', SCRAPE),
    ask.gauge(m.GPU_TEMPERATURE, 'sensor="gpu",', SCRAPE), ask.gauge(m.GPU_POWER, "", SCRAPE),
)  # fmt: skip


def removals(made: Scene) -> Iterator[tuple[str, Removal]]:
    """Every input that this world has, and how it goes away."""
    fake = made.fake
    metrics = [*METRICS, *(() if fake.bare else OF_GPUS)]
    metrics += [m.GPU_XID_LAST] if fake.xids else []
    metrics += [m.TRAIN_OPEN_OP_AGE] if fake.gone else []
    for metric in metrics:
        yield metric.name, lambda scene, name=metric.name: scene.fake.no_metrics.add(name)  # type: ignore[misc]
    for query in (*QUERIES, *(() if fake.bare else QUERIES_OF_GPUS)):
        yield f"the answer to {query}", lambda scene, one=query: scene.fake.no_answers.add(one)  # type: ignore[misc]
    for rank in RANKS:
        yield f"the series of rank {rank}", lambda s, one=rank: s.fake.no_series_of.add(one)  # type: ignore[misc]
        yield f"the page of rank {rank}", lambda s, one=rank: s.fake.no_pages.add(one)  # type: ignore[misc]
    yield "the streams of the sequential test", _without_state
    yield "what was remembered", _without_memory
    yield "the findings before", _without_findings


def _restarted(made: Scene, state: State, memory: Memory) -> None:
    made.cycles = Cycles(made.cycles._settings, state, memory)


def _without_state(made: Scene) -> None:
    _restarted(made, State.new(), made.cycles.memory)


def _without_memory(made: Scene) -> None:
    _restarted(made, made.cycles.state, Memory())


def _without_findings(made: Scene) -> None:
    memory = made.cycles.memory
    without = replace(memory, course=Memory().course, since=None)
    _restarted(made, made.cycles.state, without)


def judged(base: Scene, remove: Removal | None) -> Says:
    """What is said some cycles later, with or without an input."""
    made = copy.deepcopy(base)
    if remove is not None:
        remove(made)
    made.look(AFTER)
    return says(made)


def worse(whole: Says, less: Says) -> list[str]:
    """In which ways what is said with less is more certain or more innocent."""
    words = []
    if less.status not in (whole.status, UNKNOWN):
        words.append(f"{whole.status} became {less.status}")
    words += [f"verdict: {one}" for one in bolder(whole.verdict, less.verdict)]
    words += [f"finding: {one}" for one in bolder(whole.named, less.named)]
    words += [f"rank {rank} is slow now" for rank in less.slow.keys() - whole.slow.keys()]
    words += [
        f"{node} became healthier: {whole.health.get(node)} became {score}"
        for node, score in less.health.items()
        if score > LOOKS_HEALTHY and score > whole.health.get(node, -1.0) + ALIKE
    ]
    if less.colour is Severity.OK:
        words.append("green")
    return words
