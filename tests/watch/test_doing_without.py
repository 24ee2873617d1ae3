"""Answers that do not come: what a cycle does without, when it ends, and what health says of it."""

import time
from collections.abc import Callable

import pytest

from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import SourceError, access
from lockstep.collector.contract import metrics as m
from lockstep.watch import loop
from lockstep.watch.loop import Watch
from lockstep.watch.settings import Settings
from tests.hostile_server import HEAD, drops, serving


@pytest.fixture
def refusing(monkeypatch, prometheus) -> Callable[[str], None]:
    """`refusing(query)`: the fake answers this with an error; an empty text ends that."""
    refused = [""]
    whole = type(prometheus).answer

    def answer(self, path, words):
        if refused[0] and words.get("query") == refused[0]:
            return 500, b""
        return whole(self, path, words)

    monkeypatch.setattr(type(prometheus), "answer", answer)
    return lambda query: refused.__setitem__(0, query)


def value(watch: Watch, metric: m.Metric) -> float:
    [found] = [sample.value for sample in watch.samples() if sample.metric == metric]
    return found


def opened(changes):
    return [finding for new, _, _ in changes for finding in new]


def closed(changes):
    return [finding for _, old, _ in changes for finding in old]


def test_an_answer_that_drips_ends_its_cycle_and_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "LEAST_ANSWER_SECONDS", 0.3)
    settings = {"interval": 0.1, "out": None, "state": None}
    body = HEAD + b"Content-Length: 9999\r\n\r\n" + b"a" * 9999
    with serving(lambda _: drops(body)) as url:
        watch = Watch(Settings(access(url, {}), **settings))
        begin = time.monotonic()

        assert not watch.cycle()

    assert time.monotonic() - begin < 20.0  # 500 s of drops
    assert "did not answer in time" in watch.trouble
    assert 1 == value(watch, m.QUERY_FAILURES)


def test_health_is_the_age_of_the_last_finished_cycle(watching, monkeypatch):
    watch = watching(None, None)
    assert "" == watch.hangs()
    now = time.monotonic()
    monkeypatch.setattr(loop, "monotonic", lambda: now + 119.0)
    assert "" == watch.hangs()
    monkeypatch.setattr(loop, "monotonic", lambda: now + 130.0)
    assert watch.hangs().startswith("no cycle has finished for 130 s; one may take 120 s")

    watch.cycle()

    assert "" == watch.hangs()


def test_the_longest_interval_gives_answers_and_health_no_more_than_minutes(monkeypatch):
    until = []

    class Asked:
        def __init__(self, access, seconds, **named):
            until.append(named["until"])

        def __enter__(self):
            raise SourceError("not here")

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(loop, "Connection", Asked)
    watch = Watch(Settings(access("http://127.0.0.1:9", {}), interval=3600.0, out=None, state=None))
    begin = time.monotonic()

    assert not watch.cycle()
    assert until[0] - begin < loop.MOST_CYCLE_SECONDS + 20.0
    monkeypatch.setattr(loop, "monotonic", lambda: begin + 4000.0)
    assert watch.hangs().endswith("one may take 600 s")


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("failing", [ask.XIDS, ask.LOST, ask.STOPPED, ask.LINKS])
def test_one_answer_about_hardware_that_fails_blinds_it_to_nothing_else(
    watching, cycles, prometheus, refusing, failing
):
    refusing(failing)
    watch = watching(None)
    prometheus.slow = (1, 1.5, prometheus.now)

    found = opened(cycles(watch, 9))

    assert [1] == [one.who.rank for one in found]
    assert value(watch, m.QUERY_FAILURES) >= 1


def test_what_nobody_could_ask_about_stays_open(watching, cycles, prometheus, refusing):
    watch = watching(None)
    labels = {**prometheus._target(1), "gpu": "0", "uuid": "GPU-1", "xid": "79"}
    prometheus.xids = [(labels, prometheus.now)]
    assert 1 == len(opened(cycles(watch, 2)))
    prometheus.xids = []
    refusing(ask.XIDS)
    assert [] == closed(cycles(watch, 5, 100.0))
    refusing("")

    assert 1 == len(closed(cycles(watch, 5, 100.0)))
