import threading
import time
from dataclasses import dataclass, field

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sampler.reader import FeedReader
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.samples.counters import Falls
from lockstep.collector.samples.feed import Feed

TTL = 5.0


@dataclass
class Numbers:
    """A reading."""

    value: float
    rejected: tuple[Rejected, ...] = ()


@dataclass
class FakeSource:
    """Answers what it is told to, fails or hangs."""

    name: str = "procfs"
    answer: object = field(default_factory=lambda: Numbers(1.0))
    present: bool = True
    release: threading.Event | None = None
    reads: int = 0

    def available(self) -> bool:
        return self.present

    def read(self):
        self.reads += 1
        if self.release is not None:
            self.release.wait(10)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def collect(reading: Numbers):
    yield m.HOST_CPUS(reading.value)


def feed(source: FakeSource, **more) -> Feed:
    return Feed(source, collect, **({"period": 0.5, "deadline": 2.0} | more))


@pytest.fixture
def reader(clock):
    return lambda source, **more: FeedReader(feed(source, **more), clock)


def values(parts) -> dict:
    return {(sample.metric.name, sample.labels): sample.value for part in parts for sample in part}


def test_a_reading_is_published_whole(reader, clock):
    one = reader(FakeSource())
    one.read_once()

    health = one.health(clock.now)
    assert one.samples(clock.now, TTL) == (m.HOST_CPUS(1.0),)
    assert (health.available, health.up, health.stalled) == (True, True, False)
    assert health.last_success == clock.unix


def test_zero_is_a_value(reader, clock):
    one = reader(FakeSource(answer=Numbers(0.0)))
    one.read_once()

    assert one.samples(clock.now, TTL) == (m.HOST_CPUS(0.0),)


def test_a_failed_reading_leaves_no_stale_value(reader, clock, caplog):
    source = FakeSource()
    one = reader(source)
    one.read_once()
    source.answer = SourceError("io", "the disk is on fire")
    for _ in range(3):
        one.read_once()

    health = one.health(clock.now)
    assert one.samples(clock.now, TTL) == ()
    assert (health.up, health.errors) == (False, {"io": 3})
    assert [record.message for record in caplog.records if "fire" in record.message] == [
        "source procfs: io: the disk is on fire (counted from now on, not logged again)"
    ]


def test_a_bug_in_a_source_is_counted_and_logged_with_its_traceback_once(reader, clock, caplog):
    one = reader(FakeSource(answer=ZeroDivisionError()))
    one.read_once()
    one.read_once()

    assert one.health(clock.now).errors == {"internal": 2}
    assert len([record for record in caplog.records if record.exc_info]) == 1


def test_a_part_that_was_left_out_is_counted_while_the_rest_stands(reader, clock):
    one = reader(FakeSource(answer=Numbers(2.0, (Rejected("magic", "x"), Rejected("magic", "y")))))
    one.read_once()

    health = one.health(clock.now)
    assert one.samples(clock.now, TTL) == (m.HOST_CPUS(2.0),)
    assert (health.up, health.errors) == (True, {"magic": 2})


def test_what_this_node_does_not_have_is_absent_and_no_error(reader, clock):
    source = FakeSource(present=False)
    one = reader(source)
    one.read_once()

    health = one.health(clock.now)
    assert (source.reads, health.available, health.up, health.errors) == (0, False, False, {})


def test_values_vanish_after_their_time_to_live(reader, clock):
    one = reader(FakeSource())
    one.read_once()

    clock.sleep(TTL)
    assert len(one.samples(clock.now, TTL)) == 1
    clock.sleep(0.1)
    assert one.samples(clock.now, TTL) == ()


def test_a_slow_source_keeps_its_values_for_two_periods(reader, clock):
    one = reader(FakeSource(), period=60.0)
    one.read_once()

    clock.sleep(119)
    assert len(one.samples(clock.now, TTL)) == 1


def soon(true) -> bool:
    """Whether it comes true within seconds."""
    end = time.monotonic() + 60
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_a_source_that_hangs_is_stalled_delays_nobody_and_its_values_vanish():
    hanging, other = FakeSource("rank_ring"), FakeSource()
    sampler = Sampler(
        [
            Feed(hanging, lambda _: [m.OOM_KILLS(1)], period=0.01, deadline=0.05),
            feed(other, period=0.01, deadline=10.0),
        ],
        SystemClock(),
        ttl=1.0,
    )

    def page() -> dict:
        return values(sampler.snapshot())

    sampler.start()
    assert soon(lambda: (m.OOM_KILLS.name, ()) in page())
    hanging.release = threading.Event()
    try:
        assert soon(lambda: page()[m.SOURCE_STALLED.name, ("rank_ring",)] == 1)
        assert soon(lambda: (m.OOM_KILLS.name, ()) not in page())
        reads = other.reads
        assert soon(lambda: other.reads > reads + 5)
        after = page()
    finally:
        hanging.release.set()
        sampler.stop()

    assert after[m.SOURCE_UP.name, ("rank_ring",)] == 0
    assert after[m.SOURCE_STALLED.name, ("procfs",)] == 0
    assert after[m.SOURCE_UP.name, ("procfs",)] == 1
    assert after[m.HOST_CPUS.name, ()] == 1.0


def test_a_source_that_never_answers_does_not_keep_the_page_from_being_ready():
    release = threading.Event()
    sampler = Sampler([feed(FakeSource(release=release), deadline=0.3)], SystemClock(), ttl=1.0)
    sampler.start()

    assert not sampler.ready()
    sampler.wait_ready()
    assert soon(sampler.ready)

    release.set()
    sampler.stop()


def test_a_source_that_stands_still_is_not_called_again():
    release = threading.Event()
    source = FakeSource(release=release)
    sampler = Sampler([feed(source, period=0.01, deadline=0.02)], SystemClock(), ttl=1.0)
    sampler.start()
    assert soon(lambda: sampler.stalled() == ("procfs",))
    time.sleep(0.1)
    reads = source.reads
    release.set()
    sampler.stop()

    assert 1 == reads


def test_health_in_words_has_the_last_message_of_each_reason(clock):
    source = FakeSource(answer=SourceError("io", "first"))
    source.why_not = lambda: "the shelf is empty"
    one = FeedReader(feed(source), clock)
    one.read_once()
    source.answer = SourceError("io", "second")
    one.read_once()
    source.present = False
    one.read_once()

    told = one.state(clock.now)
    assert (told.failures, told.missing) == ({"io": "second"}, "the shelf is empty")


def test_a_device_that_was_reset_goes_on_counting_and_over_a_restart_too(clock):
    def counted(value: Numbers):
        yield m.HOST_CPU(value.value, "user")

    source = FakeSource()
    sampler = Sampler([Feed(source, counted, 1.0, falls=Falls.CARRY)], clock, TTL)
    pages = []
    for value in (5.0, 100.0, 1.0, 4.0):
        source.answer = Numbers(value)
        sampler._readers[0].read_once()
        pages.append(values(sampler.snapshot())[m.HOST_CPU.name, ("user",)])
    restarted = Sampler([Feed(source, counted, 1.0, falls=Falls.CARRY)], clock, TTL)
    restarted.resume(sampler.kept())
    source.answer = Numbers(2.0)
    restarted._readers[0].read_once()
    source.answer = Numbers(0.0)
    restarted._readers[0].read_once()

    assert [5.0, 100.0, 101.0, 104.0] == pages
    assert values(restarted.snapshot())[m.HOST_CPU.name, ("user",)] == 104.0 + 2.0


def test_a_stalled_source_that_comes_back_is_fresh_again(reader, clock):
    source = FakeSource()
    one = reader(source)
    original = source.read

    def slow():
        clock.sleep(3.0)
        assert one.stalled(clock.now)
        return original()

    source.read = slow
    one.read_once()

    assert not one.stalled(clock.now)
    assert one.health(clock.now).duration == 3.0
    assert len(one.samples(clock.now, TTL)) == 1


def test_the_very_same_reading_gives_the_very_same_samples(reader, clock):
    source = FakeSource()
    one = reader(source)
    one.read_once()
    first = one.samples(clock.now, TTL)
    one.read_once()
    second = one.samples(clock.now, TTL)
    source.answer = Numbers(1.0)
    one.read_once()

    assert first is second
    assert first == one.samples(clock.now, TTL)
    assert first is not one.samples(clock.now, TTL)


def test_the_very_same_reading_after_a_failure_is_told_again(reader, clock):
    source = FakeSource()
    one = reader(source)
    one.read_once()
    good, source.answer = source.answer, SourceError("io", "broken")
    one.read_once()
    assert () == one.samples(clock.now, TTL)
    source.answer = good
    one.read_once()

    assert (m.HOST_CPUS(1.0),) == one.samples(clock.now, TTL)


@pytest.mark.parametrize(("present", "turns"), [(True, [0.5] * 3), (False, [1.5] * 3)])
def test_what_is_not_there_is_looked_for_less_often(clock, present, turns):
    waits: list[float] = []

    class Stop:
        def is_set(self) -> bool:
            return len(waits) == 3

        def wait(self, seconds: float) -> None:
            waits.append(seconds)
            clock.sleep(seconds)

    FeedReader(feed(FakeSource(present=present), look=3), clock).run(Stop())

    assert turns == waits
