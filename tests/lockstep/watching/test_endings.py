"""How runs ended, from what Prometheus scraped of their last minutes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analyzer.readers.prometheus.decoding import Series
from analyzer.watch import questions as ask
from analyzer.watch.members import members
from analyzer.watch.progress import Progress
from analyzer.watch.run_end import How, Life, Place
from collector.contract import metrics as m
from lockstep.watching.endings import lives_now

NOW, SCRAPE = 10_000.0, 15.0
PAGES = {rank: ("lockstep", f"10.0.0.{rank}:9410") for rank in (0, 1)}
RANKS = {rank: Place(f"node-{rank}", -1) for rank in (0, 1)}


def series(rank: int, last: float, value: float = 1.0, first: float = NOW - 290.0, **labels: str):
    times = np.arange(first, last + 0.1, SCRAPE)
    return Series({"run": "gpt", "rank": str(rank), **labels}, (times * 1000).astype(np.int64),
                  np.full(len(times), value))  # fmt: skip


class Told:
    """A Prometheus that scraped rank 0 until it failed, and rank 1 until its page fell silent."""

    def __init__(self, silent: float, failed: float) -> None:
        up = series(0, failed)
        gone = series(0, NOW, 0.0, failed + SCRAPE)
        times = np.concatenate([up.times, gone.times])
        values = np.concatenate([up.values, gone.values])
        self.raw = {
            ask.lately_up("gpt"): [Series(up.labels, times, values), series(1, silent)],
            ask.lately_said("gpt"): [series(0, NOW, 1.0, failed + SCRAPE, state="failed"),
                                     series(1, silent - 60.0, state="failed")],
            ask.lately_stepped("gpt"): [series(0, failed, 7.0)],
        }  # fmt: skip

    def instant(self, query: str, _: float) -> list[Any]:
        assert query == ask.LAST_STATE
        return [({"run": "gpt", "rank": "0", "state": "failed"}, 1.0)]

    def samples(self, query: str, _: float) -> list[Series]:
        return self.raw[query]


def ended(told: Told, stepped: float) -> Life:
    info = {"__name__": m.RANK_INFO.name, "run": "gpt", "rank": "0", "attempt": "0",
            "world_size": "2", "node": "node-0", "job": PAGES[0][0],
            "instance": PAGES[0][1]}  # fmt: skip
    who = members([(info, 1.0)])
    seen = SimpleNamespace(now=NOW, members=who, up=np.array([0.0]), living=np.array([False]),
                           pages=[])  # fmt: skip
    life = Life(RANKS, frozenset(PAGES.values()), 0, NOW - SCRAPE, first=NOW - 4000.0)
    progress = {"gpt": Progress(7.0, stepped)}
    return lives_now(told, seen, {"gpt": life}, progress, SCRAPE, 300.0)["gpt"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stepped", "first"),
    [
        # Steps are ten minutes apart: the last was before the page fell silent, or long after.
        (NOW - 600.0, (1,)),
        (NOW - 60.0, ()),
    ],
)
def test_who_fell_silent_while_steps_are_minutes_apart_is_named_if_no_step_came_afterwards(
    stepped, first
):
    life = ended(Told(silent=NOW - 240.0, failed=NOW - 45.0), stepped)

    assert life.end is not None
    assert (How.DIED, first) == (life.end.how, life.end.first)


def test_what_a_rank_said_before_it_was_seen_alive_again_is_not_its_last_word():
    life = ended(Told(silent=NOW - 60.0, failed=NOW - 75.0), NOW - 90.0)

    assert life.end is not None
    assert {"failed": 1, "": 1} == life.end.states
