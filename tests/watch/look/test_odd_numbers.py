"""Numbers that cannot be, whoever told them to Prometheus: they open nothing and end nothing."""

import json

import numpy as np
import pytest

from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError, access
from lockstep.analyzer.read.prometheus.answers import Series, plausible
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.collector.contract import metrics as m

ODD = ("+Inf", "-Inf", "NaN", "1e308", "-1e308")
QUERIES = (ask.LOST, ask.XIDS, ask.OPEN, ask.TELLING)


@pytest.fixture
def telling(monkeypatch, prometheus):
    """`telling(odd)`: from now on this is every value of the answers to QUERIES, and of an XID."""
    odd: list[str] = []
    whole = type(prometheus).answer

    def answer(self, path, words):
        status, body = whole(self, path, words)
        if not odd or words.get("query") not in QUERIES:
            return status, body
        tree = json.loads(body)
        rows = list(map(self._target, range(4)))
        tree["data"]["result"] = [
            {"metric": {**labels, "run": self.run, "rank": str(rank), "xid": "79", "gpu": "0"},
             "value": [self.now, odd[0]]}
            for rank, labels in enumerate(rows)
        ]  # fmt: skip
        return status, json.dumps(tree).encode()

    monkeypatch.setattr(type(prometheus), "answer", answer)
    return lambda value: odd.insert(0, value)


def test_no_odd_answer_opens_a_finding_or_fails_a_cycle(watching, cycles, telling):
    watch = watching(out=None, state=None)
    cycles(watch, 2)
    for value in ODD:
        telling(value)
        changes = cycles(watch, 2)
        assert [(), ()] == [opened for opened, _, _ in changes], value

    assert [] == list(watch.findings())


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e308", "99999999999"])
def test_a_clock_that_no_clock_is_makes_no_cycle(prometheus, server, value, monkeypatch):
    scalar = {"resultType": "scalar", "result": [0, value]}
    body = json.dumps({"status": "success", "data": scalar}).encode()
    monkeypatch.setattr(prometheus, "answer", lambda path, words: (200, body))

    with Connection(access(server[0], {})) as connection, pytest.raises(SourceError):
        connection.now()


@pytest.mark.parametrize("odd", [np.inf, -np.inf, 1e308, -1e308, -400.0, 644245923.0])
def test_a_sample_outside_the_range_of_its_metric_is_absent(odd):
    labels = {"__name__": m.GPU_TEMPERATURE.name, "gpu": "0"}
    told = Series(labels, np.array([1, 2, 3], dtype=np.int64), np.array([60.0, odd, np.nan]))
    left = plausible(told)

    assert [1, 3] == left.times.tolist()
    assert [60.0] == left.values[:1].tolist()


def test_a_number_of_a_program_and_of_others_is_as_it_is():
    values = np.array([np.inf, -1e308])
    times = np.array([1, 2], dtype=np.int64)
    for name in ("node_load1", m.TRAIN_LOSS.name):
        assert 2 == len(plausible(Series({"__name__": name}, times, values)).values)
