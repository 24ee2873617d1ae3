"""Which source of GPUs feeds the page."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.gpu.precedence import Ranked
from tests.machine import slowness


@dataclass
class Fake:
    name: str
    here: bool = True
    gpus: int = 1
    fails: bool = False
    stalled: bool = False
    closed: list[bool] = field(default_factory=list)

    def available(self) -> bool:
        return self.here

    def why_not(self) -> str:
        return f"{self.name} is missing"

    def read(self) -> GpuReading:
        if self.fails:
            raise SourceError("x", "y")
        gpus = tuple(Gpu(index, f"GPU-{index}") for index in range(self.gpus))
        return GpuReading(gpus, stalled=self.stalled)

    def close(self) -> None:
        self.closed.append(True)


@pytest.fixture
def two():
    first, second = Fake("nvml"), Fake("dcgm")
    ranked = Ranked(first)
    return first, ranked, Ranked(second, [ranked])


@dataclass
class Blocking(Fake):
    """Answers a reading when it is let."""

    asked: threading.Event = field(default_factory=threading.Event)
    let: threading.Event = field(default_factory=threading.Event)

    def read(self) -> GpuReading:
        self.asked.set()
        assert self.let.wait(20)
        return super().read()


@pytest.fixture
def aside() -> Iterator[Callable[..., threading.Thread]]:
    """Runs a call in a thread of its own."""
    threads: list[threading.Thread] = []

    def start(call: Callable[[], object]) -> threading.Thread:
        threads.append(threading.Thread(target=call))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(20)


def test_the_better_one_keeps_the_other_off(two):
    _, nvml, dcgm = two
    nvml.read()

    assert not dcgm.available()
    assert dcgm.why_not() == "nvml feeds the page"


def test_the_other_serves_where_the_better_one_fails_or_has_no_gpu(two):
    first, nvml, dcgm = two
    nvml.read()
    first.fails = True
    with pytest.raises(SourceError):
        nvml.read()
    assert dcgm.available()

    first.fails, first.gpus = False, 0
    nvml.read()
    assert dcgm.available()

    first.gpus = 1
    nvml.read()
    assert not dcgm.available()


def test_one_that_stands_still_goes_on_serving(two):
    first, nvml, dcgm = two
    nvml.read()
    first.gpus, first.stalled = 0, True
    nvml.read()

    assert not dcgm.available()


def test_what_is_missing_and_what_was_started_pass_through(two):
    first, nvml, _ = two
    first.here = False
    nvml.close()

    assert nvml.why_not() == "nvml is missing"
    assert first.closed == [True]


def test_while_a_better_one_reads_again_nobody_else_serves(aside):
    better = Blocking("nvml")
    nvml = Ranked(better)
    dcgm = Ranked(Fake("dcgm"), [nvml])
    better.let.set()
    nvml.read()
    better.let.clear()
    better.asked.clear()
    reading = aside(nvml.read)
    assert better.asked.wait(20)
    during = (dcgm.available(), dcgm.why_not())
    better.let.set()
    reading.join(20)

    assert (False, "nvml feeds the page") == during
    assert not dcgm.available()


def test_the_first_answer_of_a_better_one_is_waited_for(aside):
    better = Blocking("nvml")
    nvml = Ranked(better)
    dcgm = Ranked(Fake("dcgm"), [nvml], patience=20)
    turns: list[bool] = []
    aside(nvml.read)
    waiting = aside(lambda: turns.append(dcgm.available()))
    assert better.asked.wait(20)
    assert [] == turns
    better.let.set()
    waiting.join(20)

    assert [False] == turns


def test_a_better_one_that_hangs_at_first_is_waited_for_once(aside):
    better = Blocking("nvml")
    nvml = Ranked(better)
    dcgm = Ranked(Fake("dcgm"), [nvml], patience=0.2)
    hanging = aside(nvml.read)
    assert better.asked.wait(20)
    began = time.monotonic()
    assert dcgm.available()
    waited = time.monotonic() - began
    dcgm.read()
    nvml_hangs = dcgm.available()
    better.let.set()
    hanging.join(20)

    assert 0.2 <= waited
    assert nvml_hangs
    assert not dcgm.available()  # and when it answers at last, it serves


@pytest.mark.timed
def test_what_is_not_there_is_not_waited_for(two):
    first, nvml, dcgm = two
    first.here = False
    assert not nvml.available()
    with slowness() as machine:
        began = time.monotonic()
        assert dcgm.available()
        waited = time.monotonic() - began

    assert waited < 1 * machine.factor


def test_a_better_one_that_may_not_even_be_looked_for_serves_no_more(two, monkeypatch):
    first, nvml, dcgm = two
    nvml.read()

    def forbidden() -> bool:
        raise PermissionError("x")

    monkeypatch.setattr(first, "available", forbidden)
    with pytest.raises(PermissionError):
        nvml.available()

    assert dcgm.available()


def test_a_better_one_that_goes_away_serves_no_more(two):
    first, nvml, dcgm = two
    nvml.read()
    first.here = False
    nvml.available()

    assert dcgm.available()
    assert dcgm.why_not() == "dcgm is missing"


def test_when_the_best_fails_the_second_is_waited_for_before_the_third(aside):
    first, second = Fake("nvml"), Blocking("dcgm")
    nvml = Ranked(first)
    dcgm = Ranked(second, [nvml])
    exporter = Ranked(Fake("dcgm_exporter"), [nvml, dcgm], patience=20)
    nvml.read()
    assert not dcgm.available()
    first.fails = True
    with pytest.raises(SourceError):
        nvml.read()
    turns: list[bool] = []
    waiting = aside(lambda: turns.append(exporter.available()))
    assert dcgm.available()
    second.let.set()
    dcgm.read()
    waiting.join(20)

    assert [False] == turns


def test_asking_why_never_fails_while_serving_changes(aside):
    better = Fake("nvml")
    nvml = Ranked(better)
    dcgm = Ranked(Fake("dcgm"), [nvml])
    stop = threading.Event()

    def flap() -> None:
        while not stop.is_set():
            better.gpus = 1 - better.gpus
            nvml.read()

    aside(flap)
    said = {dcgm.why_not() for _ in range(20_000)}
    stop.set()

    assert said <= {"nvml feeds the page", "dcgm is missing"}
