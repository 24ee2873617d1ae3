"""A Prometheus that answers what a simulated run would have told, at whatever time it is."""

import json
import math
import re
from collections.abc import Callable
from functools import partial

import numpy as np

from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.kubernetes import LABELS, METRIC, series_label
from lockstep.collector.contract import metrics as m

STEP, OWN, SCRAPE = 0.5, 0.4, 15.0
START = 1_790_000_000.0
LEAF = series_label(LABELS["leaf"][0])
UP = re.compile(
    rf'^(?P<name>{m.RANK_UP.name}|{m.TRAIN_STEPS.name}|{m.RANK_LAST_STATE.name})\{{run="(?P<run>.*)"\}}\[(?P<ms>\d+)ms\]$'
)
RANGE = re.compile(r"^\{__name__=~.*instance=~\"(?P<instance>.*?)\".*\}\[(?P<ms>\d+)ms\]$")


class FakePrometheus:
    """One run of four ranks on four nodes.

    Attributes:
        now: Its clock, unix seconds.
        slow: (rank, factor, from when) or None.
        gone: (rank, from when) or None: all others wait then.
        stopped: From when on no page is scraped, or None.
        stale: Seconds for which what was scraped is told at once; less = the scrapes after failed.
        ended: When the run ended, or None; as it should, unless somebody was killed.
        killed: The rank whose end by a signal ended the run and all others, or None.
        pauses: (from when, until when) in which rank 0 saves and all others wait for it.
        silent: (ranks whose page is not scraped, from when) or None.
        run: The run's id.
        reply: Replaces every answer by a status and a body.
        warning: Is added to every answer.
        leaf: Leaf switches by node, as kube-state-metrics tells of them.
        xids: Labels and unix seconds.
        untimed: (ranks, from when) with collectives that nobody times, or None.
        no_metrics: Metrics that are on no page.
        no_series_of: Ranks of which the pages tell nothing.
        no_pages: Ranks whose page, and all that it told, is gone.
        no_answers: Queries whose answer is empty.
        bare: Whether there is nothing of GPUs on the pages.
    """

    def __init__(self) -> None:
        self.now = START + 1200.0
        self.slow: tuple[int, float, float] | None = None
        self.gone: tuple[int, float] | None = None
        self.stopped: float | None = None
        self.stale = 300.0
        self.ended: float | None = None
        self.killed: int | None = None
        self.pauses: list[tuple[float, float]] = []
        self.silent: tuple[set[int], float] | None = None
        self.run = "gpt-1"
        self.node = "node-{}"
        self.reply: tuple[int, bytes] | None = None
        self.warning = ""
        self.leaf: dict[str, str] = {}
        self.xids: list[tuple[dict[str, str], float]] = []
        self.untimed: tuple[set[int], float] | None = None
        self.no_metrics: set[str] = set()
        self.no_series_of: set[int] = set()
        self.no_pages: set[int] = set()
        self.no_answers: set[str] = set()
        self.bare = False
        self._noise = np.cumsum(0.01 * np.random.default_rng(5).standard_normal((4, 4000)), axis=1)

    def answer(self, path: str, words: dict[str, str]) -> tuple[int, bytes]:
        if self.reply is not None:
            return self.reply
        if path.endswith("/targets"):
            return 200, b'{"status":"success","data":{"activeTargets":[]}}'
        if path.endswith("/labels"):
            return 200, b'{"status":"success","data":["__name__","instance","job"]}'
        query = words["query"]
        if path.endswith("/query_range"):
            data = self._matrix(self._ranged(query, words))
        elif found := RANGE.match(query):
            time, seconds = float(words["time"]), int(found["ms"]) / 1000
            data = self._matrix(self._raw(found["instance"], time - seconds, time))
        elif found := UP.match(query):
            time, seconds = float(words["time"]), int(found["ms"]) / 1000
            raw = self._raw(".*", time - seconds, time) if found["run"] == self.run else []
            data = self._matrix([one for one in raw if one[0]["__name__"] == found["name"]])
        elif query == "time()":
            data = {"resultType": "scalar", "result": [self.now, str(self.now)]}
        else:
            told = self._instant(query, float(words["time"]))
            result = [
                {"metric": labels, "value": [self.now, repr(float(value))]}
                for labels, value in told
            ]
            data = {"resultType": "vector", "result": result}
        tree = {"status": "success", "data": data}
        if self.warning:
            tree["warnings"] = [self.warning]
        return 200, json.dumps(tree).encode()

    def scraped(self, time: float) -> float:
        """The last scrape up to a moment."""
        last = time if self.stopped is None else min(time, self.stopped)
        return START + SCRAPE * math.floor((last - START) / SCRAPE)

    def dead(self, time: float, rank: int | None = None) -> bool:
        if self.ended is not None and time >= self.ended:
            return rank is not None
        if self.gone is None or time < self.gone[1]:
            return False
        return rank is None or rank == self.gone[0]

    def said(self, rank: int) -> str:
        """What a rank says last that is gone."""
        return "finished" if self.killed is None else "running" if rank == self.killed else "failed"

    def steps(self, time: float) -> float:
        running = time if self.gone is None else min(time, self.gone[1])
        running = running if self.ended is None else min(running, self.ended)
        running -= sum(max(0.0, min(running, end) - begin) for begin, end in self.pauses)
        begun = running if self.slow is None else min(running, self.slow[2])
        step = STEP if self.slow is None else max(STEP, OWN * self.slow[1] + 0.1)
        return float(math.floor((begun - START) / STEP) + math.floor((running - begun) / step))

    def own(self, time: float, rank: int) -> float:
        steps = self.steps(time)
        own = OWN * (steps + self._noise.item(rank, int(steps) % 4000))
        if self.slow is not None and self.slow[0] == rank and time > self.slow[2]:
            own += OWN * (self.slow[1] - 1) * (steps - self.steps(self.slow[2]))
        return own

    def known(self, time: float, rank: int) -> float:
        """Steps of which own time is known; what is not timed is not summed, either."""
        steps = self.steps(time)
        if self.untimed is None or rank not in self.untimed[0]:
            return steps
        return min(steps, self.steps(self.untimed[1]))

    def summed(self, time: float, rank: int) -> float:
        timed = time if self.known(time, rank) == self.steps(time) else self.untimed[1]
        return self.own(timed, rank)

    def per_step(self, time: float, rank: int, seconds: float = 300.0) -> float | None:
        """As known.own_per_step over a span."""
        before = time - seconds + SCRAPE
        steps = self.steps(time) - self.steps(before)
        if steps <= 0 or self.known(time, rank) - self.known(before, rank) < steps:
            return None
        return (self.own(time, rank) - self.own(before, rank)) / steps

    def _untold(self) -> set[str]:
        """Of what a diagnosis reads."""
        return self.no_metrics & {metric.name for metric in ask.OF_DIAGNOSIS}

    def _away(self, query: str) -> bool:
        """Whether an answer lacks what it is made of."""
        return query in self.no_answers or any(
            re.search(rf"\b{name}\b", query) for name in self.no_metrics
        )

    def _ranks(self) -> list[int]:
        return [rank for rank in range(4) if rank not in self.no_series_of | self.no_pages]

    def _gauge(self, metric: m.Metric, time: float, rank: int) -> float:
        usual = {m.GPU_CLOCK: 1.9e9, m.GPU_TEMPERATURE: 60.0, m.GPU_POWER: 300.0}[metric]
        return usual * (1.0 + 0.01 * math.sin(time / 40.0 + 2.0 * rank))

    def _paused(self, time: float) -> list[float]:
        """Since when, if it is now."""
        return [begin for begin, end in self.pauses if begin <= time < end]

    def _silent(self, rank: int) -> bool:
        silent = self.silent
        gone = silent is not None and rank in silent[0] and self.now >= silent[1]
        return gone or rank in self.no_pages

    def _who(self, rank: int) -> dict[str, str]:
        return {"run": self.run, "rank": str(rank)}

    def _target(self, rank: int) -> dict[str, str]:
        return {"job": "lockstep", "instance": f"127.0.0.{rank + 1}:9"}

    def _info(self, rank: int) -> dict[str, str]:
        return {
            **self._who(rank), **self._target(rank), "attempt": "0", "local_rank": "0",
            "world_size": "4", "dp": str(rank), "pp": "0", "tp": "0", "gpu": "0",
            "uuid": f"GPU-{rank}", "node": self.node.format(rank),
        }  # fmt: skip

    def _fresh(self, time: float) -> bool:
        return time - self.scraped(time) < self.stale

    def _instant(self, query: str, time: float) -> list[tuple[dict[str, str], float]]:
        at, every = self.scraped(time), self._ranks()
        said = ask.LAST_STATE
        if not (self._fresh(time) or (query == said and time - at < ask.UP_SECONDS)):
            return []
        if query == ask.XIDS:
            return self._errors()
        if (self._away(query) and query != ask.TELLING) or query in self.no_answers:
            return []
        for seconds in (60.0, 300.0):
            if query == ask.own_seconds_query(seconds):
                living = [(r, self.per_step(at, r, seconds)) for r in every if not self.dead(at, r)]
                return [(self._who(r), own) for r, own in living if own is not None]
        if query == ask.rate(m.TRAIN_STEPS, 300.0):
            return [
                (self._who(r), (self.steps(at) - self.steps(at - 285.0)) / 285.0)
                for r in every
                if not self.dead(at, r)
            ]
        open_now = [({"run": self.run}, at - self.gone[1])] if self.gone and self.dead(at) else []
        open_now += [({"run": self.run}, at - since) for since in self._paused(at)]
        answers: dict[str, Callable[[], list[tuple[dict[str, str], float]]]] = {
            ask.INFOS: lambda: [({"__name__": "x", **self._info(r)}, 1.0) for r in every],
            ask.LIVING: lambda: [(self._who(r), float(not self.dead(at, r))) for r in every],
            ask.TOLD: lambda: [({"run": self.run}, at)],
            ask.PAGES: lambda: [(self._target(r), at) for r in range(4) if not self._silent(r)],
            ask.OPEN: lambda: open_now,
            ask.TELLING: lambda: [
                (self._who(r), len(ask.OF_DIAGNOSIS) - len(self._untold())) for r in every
            ],
            ask.LAST_STATE: lambda: [
                ({**self._who(r), "state": self.said(r)}, 1.0)
                for r in every
                if self.ended is not None and self.dead(at, r)
            ],
            ask.LOST: lambda: [] if self.bare else [(self._target(r), 0.0) for r in every],
        }
        if METRIC in query:
            return [({"node": node, LEAF: leaf}, 1.0) for node, leaf in self.leaf.items()]
        return answers.get(query, list)()

    def _errors(self) -> list[tuple[dict[str, str], float]]:
        """As XIDS: single errors, and whether each page counted some."""
        if self.bare or ask.XIDS in self.no_answers:
            return []
        every = self._ranks()
        pages = [self._target(rank) for rank in every]
        hit = [labels["instance"] for labels, _ in self.xids]
        counts = [(page, float(page["instance"] in hit)) for page in pages]
        here = [page["instance"] for page in pages]
        told = [one for one in self.xids if one[0]["instance"] in here]
        return [
            *([] if m.GPU_XID_LAST.name in self.no_metrics else told),
            *([] if m.GPU_XID_ERRORS.name in self.no_metrics else counts),
        ]

    def _steps(self, time: float, rank: int) -> float:
        return self.steps(time)

    def _ranged(self, query: str, words: dict[str, str]):
        start, end, step = (float(words[name]) for name in ("start", "end", "step"))
        count = int((end - start) / step + 1e-6) + 1
        times = [time for i in range(count) if self._fresh(time := start + step * i)]
        if self._away(query) or not times:
            return []
        of = {ask.OWN: self.summed, ask.STEPS: self._steps, ask.KNOWN: self.known}.get(query)
        names = self._who
        for metric in (m.GPU_CLOCK, m.GPU_TEMPERATURE, m.GPU_POWER):
            if f"({metric.name}{{" in query and not self.bare:
                of = partial(self._gauge, metric)
                names = lambda rank: {"uuid": f"GPU-{rank}"}  # noqa: E731
        if of is None:
            return []
        return [
            (names(r), times, [of(self.scraped(time), r) for time in times]) for r in self._ranks()
        ]

    def _raw(self, instances: str, start: float, end: float):
        """All series of some targets in a span."""
        first = START + SCRAPE * math.ceil((max(start, START) - START) / SCRAPE)
        times = np.arange(first, self.scraped(end) + 1, SCRAPE).tolist()
        for rank in {*range(4)} - self.no_pages:
            if not re.fullmatch(instances.replace("\\\\", "\\"), self._target(rank)["instance"]):
                continue
            for name, labels, value in self._page(rank):
                if name in self.no_metrics or (rank in self.no_series_of and "rank" in labels):
                    continue
                kept = [(t, v) for t in times if (v := value(t)) is not None]
                if kept:
                    own = {"__name__": name, **self._target(rank), **labels}
                    yield own, [t for t, _ in kept], [v for _, v in kept]

    def _page(self, rank: int):
        who = self._who(rank)

        def living(value):
            return lambda t: None if self.dead(t, rank) else value(t)

        def stands(time: float) -> float | None:
            """Since when it waits for who is gone."""
            return self.gone[1] if self.gone is not None and self.dead(time) else None

        wall = living(lambda t: (stands(t) or t) - START)
        yield m.BUILD_INFO.name, {"version": "1"}, lambda t: 1.0
        yield m.RANK_INFO.name, self._info(rank), lambda t: 1.0
        yield m.RANK_UP.name, who, lambda t: float(not self.dead(t, rank))
        yield (
            m.RANK_LAST_STATE.name, {**who, "state": self.said(rank)},
            lambda t: 1.0 if self.ended is not None and self.dead(t, rank) else None,
        )  # fmt: skip
        yield m.TRAIN_STEPS.name, who, living(self.steps)
        yield m.TRAIN_KNOWN_STEPS.name, who, living(lambda t: self.known(t, rank))
        yield m.TRAIN_OWN.name, who, living(lambda t: self.summed(t, rank))
        yield m.TRAIN_CPU.name, who, living(lambda t: self.own(t, rank))
        for phase in ("data", "backward", "optimizer", "checkpoint", "eval", "other"):
            yield m.TRAIN_PHASE.name, {**who, "phase": phase}, living(lambda t: 0.0)
        own = living(lambda t: self.own(t, rank))
        yield m.TRAIN_PHASE.name, {**who, "phase": "forward"}, own
        rest = living(lambda t: wall(t) - self.own(t, rank))
        yield m.TRAIN_PHASE.name, {**who, "phase": "grad_sync"}, rest
        group = {**who, "group": "dp"}
        missing = self.gone is not None and self.gone[0] == rank
        yield m.TRAIN_COLLECTIVE.name, group, rest
        yield m.TRAIN_COLLECTIVES.name, group, living(self.steps)
        late, saves = 0 if missing else 1, rank == 0
        yield (
            m.TRAIN_ENQUEUED.name, group,
            lambda t: (
                self.steps(t)
                + (late if self.dead(t) else 0)
                + (1 if self._paused(t) and not saves else 0)
            ),
        )  # fmt: skip
        yield m.TRAIN_COMPLETED.name, group, self.steps
        inside = {**group, "op": "dp-all-reduce"}
        yield (
            m.TRAIN_OPEN_OP_AGE.name, inside,
            living(
                lambda t: t - since if (since := stands(t)) is not None
                else t - self._paused(t)[0] if self._paused(t) and not saves else None
            ),
        )  # fmt: skip
        yield m.TRAIN_HEARTBEAT_AGE.name, who, living(lambda t: 0.3)

    def _matrix(self, series):
        return {
            "resultType": "matrix",
            "result": [
                {
                    "metric": labels,
                    "values": [
                        [float(t), repr(float(v))] for t, v in zip(times, values, strict=True)
                    ],
                }
                for labels, times, values in series
            ],
        }
