"""Feeds that one thread reads in turn: cheap while all answer, apart as soon as one hangs."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.registry import SOURCES, Thread
from lockstep.collector.sampler.reader import FeedReader
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sampler.shared_thread import SharedThread
from lockstep.collector.samples.feed import Feed

PATIENCE = 0.02


@dataclass
class Fake:
    """Answers at once, or when it is let."""

    name: str
    let: threading.Event = field(default_factory=threading.Event)
    threads: list[int] = field(default_factory=list)
    closed: int = 0
    stands: bool = False

    def __post_init__(self) -> None:
        self.let.set()

    def available(self) -> bool:
        return True

    def read(self) -> int:
        self.threads.append(threading.get_ident())
        self.stands = not self.let.is_set()
        assert self.let.wait(20)
        return len(self.threads)

    def close(self) -> None:
        self.closed += 1


def soon(true: Callable[[], bool]) -> bool:
    """Whether it comes true within seconds."""
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


def reader(source: Fake, period: float = 0.01) -> FeedReader:
    return FeedReader(Feed(source, lambda count: [m.HOST_CPUS(count)], period), SystemClock())


@pytest.fixture
def started() -> Iterator[Callable[..., Callable[[], None]]]:
    """Starts taking turns; what it returns stops it."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def start(*readers: FeedReader) -> Callable[[], None]:
        turns = SharedThread(readers, SystemClock(), PATIENCE)
        threads.append(threading.Thread(target=turns.run, args=(stop,)))
        threads[-1].start()

        def end() -> None:
            stop.set()
            threads[-1].join(10)

        return end

    yield start
    stop.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_one_thread_reads_them_all(started):
    sources = [Fake(name) for name in "abc"]
    end = started(*map(reader, sources))

    assert soon(lambda: min(len(one.threads) for one in sources) >= 5)
    end()
    assert 1 == len({thread for one in sources for thread in one.threads})
    assert [1, 1, 1] == [one.closed for one in sources]


def test_each_is_read_at_its_own_period(started):
    often, seldom = Fake("often"), Fake("seldom")
    end = started(reader(often), reader(seldom, period=60))

    assert soon(lambda: len(often.threads) >= 5)
    end()
    assert 1 == len(seldom.threads)


def test_those_that_hang_stop_no_other_and_come_back(started):
    good, *bad = sources = [Fake(name) for name in "abc"]
    readers = [reader(one) for one in sources]
    started(*readers)
    assert soon(lambda: min(len(one.threads) for one in sources) >= 2)
    for one in bad:
        one.let.clear()
    assert soon(lambda: all(one.stands for one in bad))
    before = [len(one.threads) for one in sources]
    assert soon(lambda: len(good.threads) >= before[0] + 5)
    during = [len(one.threads) for one in bad]
    for one in bad:
        one.let.set()

    assert before[1:] == during  # what stands still is not called again
    assert soon(lambda: all(len(one.threads) >= 5 + n for one, n in zip(bad, during, strict=True)))
    assert soon(lambda: 1 == len({one.threads[-1] for one in sources}))
    assert all(not one.stalled(time.monotonic()) for one in readers)


def test_threads_of_what_hung_end(started):
    good, bad = Fake("good"), Fake("bad")
    alone = threading.active_count()
    started(reader(good), reader(bad))
    for _ in range(3):
        bad.let.clear()
        count = len(good.threads)
        assert soon(lambda count=count: len(good.threads) >= count + 5)
        bad.let.set()
        count = len(bad.threads)
        assert soon(lambda count=count: len(bad.threads) >= count + 3)

    assert soon(lambda: threading.active_count() <= alone + 2)


def test_one_that_hangs_while_all_end_is_closed_when_it_returns(started):
    good, bad = Fake("good"), Fake("bad")
    bad.let.clear()
    end = started(reader(good), reader(bad))
    assert soon(lambda: len(good.threads) >= 5)
    end()
    before = (good.closed, bad.closed)
    bad.let.set()

    assert (1, 0) == before
    assert soon(lambda: bad.closed == 1)


def test_one_that_hangs_from_the_start_keeps_none_from_the_page():
    bad, good = Fake("rank_ring"), Fake("procfs")
    bad.let.clear()

    def feed(source: Fake) -> Feed:
        return Feed(source, lambda count: [m.HOST_CPUS(count)], 0.5, deadline=0.1, in_turns=True)

    sampler = Sampler([feed(bad), feed(good)], SystemClock(), ttl=5.0)
    sampler.start()
    try:
        assert soon(
            lambda: any(s.metric is m.HOST_CPUS for part in sampler.snapshot() for s in part)
        )
        assert ("rank_ring",) == sampler.stalled()
    finally:
        bad.let.set()
        sampler.stop()


def test_what_may_stand_still_for_long_has_a_thread_of_its_own():
    alone = {spec.name for spec in SOURCES if spec.thread is Thread.OWN}

    assert alone >= {
        "nvml", "dcgm", "dcgm_exporter", "thermal", "thermal_throttle", "ethtool", "nccl_ras",
        "infiniband", "infiniband_errors", "pod_resources", "cgroup_tree",
    }  # fmt: skip
