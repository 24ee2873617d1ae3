"""The kernel log: read once, never waited for, also when it is flooded, torn or no log at all."""

import errno
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.host import kmsg
from lockstep.collector.sources.host.kmsg import MAX_WAITING, TURN_BYTES, Kmsg


def record(sequence: int, text: str, microseconds: int = 10**15, prio: int = 3) -> str:
    """A record of the log; without a time it is stamped with one to come, and so read as now."""
    return f"{prio},{sequence},{microseconds},-;{text}\n"


XID = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture
def log(tmp_path, clock):
    """A log as a regular file: (the source, a function that appends to it)."""
    path = tmp_path / "kmsg"
    path.touch()
    source = Kmsg(path, clock, clock.monotonic)

    def write(*records: str) -> None:
        with path.open("a") as stream:
            stream.write("".join(records))

    yield source, write
    source.close()


def test_records_are_read_once_with_their_properties_left_out(log):
    source, write = log
    write(record(7, XID), " SUBSYSTEM=pci\n DEVICE=+pci:0000:65:00.0\n", record(8, "usb 1-1: new"))

    heard, again = source.take(), source.take()

    assert [79] == [event.xid for event in heard.events]
    assert 8 == heard.sequence
    assert () == again.events
    assert ((), 0) == (source.read().rejected, source.read().dropped)


def test_a_record_that_is_still_being_written_is_read_when_it_ends(log):
    source, write = log
    line = record(7, XID)
    write(line[:40])
    first = source.take()
    write(line[40:])

    assert () == first.events
    assert [79] == [event.xid for event in source.take().events]


def test_an_event_is_dated_between_two_readings_or_by_the_kernel_s_stamp(log, clock):
    source, write = log
    write(record(1, XID, 900_250_000))
    (old,) = source.take().events
    clock.sleep(10.0)
    write(record(2, XID, 1_004_500_000), record(3, XID, 900_000_000), record(4, XID, 10**15))
    drifted, early, late = source.take().events

    assert 900.25 == old.monotonic
    assert 1004.5 == drifted.monotonic
    assert (1000.0, 1010.0) == (early.monotonic, late.monotonic)


def test_a_fifo_without_a_writer_is_an_empty_log(tmp_path, clock):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    source = Kmsg(path, clock, clock.monotonic)

    assert source.available()
    assert () == source.take().events
    with path.open("w") as writer:
        writer.write(record(1, XID))
        writer.flush()
        assert [79] == [event.xid for event in source.take().events]
        assert () == source.take().events
    assert () == source.take().events
    source.close()


def scripted(*answers):
    """In place of os.read: bytes are returned, numbers raised as errors, then there is nothing."""
    queue = list(answers)

    def read(_descriptor: int, _limit: int) -> bytes:
        answer = queue.pop(0) if queue else errno.EAGAIN
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    return read


@pytest.fixture
def device(tmp_path, clock):
    path = tmp_path / "kmsg"
    path.touch()
    return lambda *answers: Kmsg(path, clock, clock.monotonic, scripted(*answers))


def test_records_lost_in_an_overrun_are_counted(device):
    source = device(record(10, XID).encode(), errno.EPIPE, record(15, XID).encode(), errno.EAGAIN,
                    errno.EPIPE, record(16, XID).encode())  # fmt: skip
    first, second = source.take(), source.take()

    assert (2, 1) == (len(first.events), len(second.events))
    assert 4 + 1 == source.read().dropped


def test_what_was_lost_while_the_collector_was_away_is_counted_and_nothing_read_twice(device):
    source = device(record(10, XID).encode(), record(14, XID).encode())
    source.resume(11)

    assert ([79], 14) == ([one.xid for one in source.take().events], source.take().sequence)
    assert 2 == source.read().dropped


def test_a_record_that_is_too_long_is_counted_and_the_next_one_read(device):
    source = device(errno.EINVAL, record(2, XID).encode())

    assert 1 == len(source.take().events)
    assert ["too_long"] == [one.reason for one in source.read().rejected]


def test_a_device_that_is_no_log_is_said_to_be_none(clock):
    source = Kmsg(Path("/dev/zero"), clock)

    assert () == source.take().events
    assert {"too_long"} == {one.reason for one in source.read().rejected}
    source.close()


def test_a_log_that_breaks_is_counted_and_opened_again(device):
    source = device(record(1, XID).encode(), errno.EIO, errno.EAGAIN, record(2, XID).encode())
    first, second, third = source.take(), source.take(), source.take()

    assert (1, 0, 1) == (len(first.events), len(second.events), len(third.events))
    assert ["io"] == [one.reason for one in source.read().rejected]


def test_a_turn_of_a_flood_ends(tmp_path, clock):
    reads = []

    def flood(_descriptor: int, _limit: int) -> bytes:
        reads.append(1)
        return b"6,%d,1,-;noise\n" % len(reads)

    (tmp_path / "kmsg").touch()
    heard = Kmsg(tmp_path / "kmsg", clock, read=flood).take()

    assert len(reads) == heard.sequence
    assert TURN_BYTES // 100 + 1 >= len(reads)


def test_events_that_nobody_fetches_wait_in_the_log(device):
    several = MAX_WAITING + 5
    source = device(*(record(number, XID).encode() for number in range(several)))
    assert source.available()
    source.read()
    first, second = source.take(), source.take()

    assert (MAX_WAITING, 5) == (len(first.events), len(second.events))
    assert (MAX_WAITING - 1, several - 1) == (first.sequence, second.sequence)
    assert 0 == source.read().dropped


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=10))
def test_noise_is_counted_and_never_raised(tmp_path_factory, noise):
    path = tmp_path_factory.getbasetemp() / "noise"
    path.write_bytes(b"".join(noise) + b"\n" + record(10**18, XID).encode())
    source = Kmsg(path, _Now())
    events, reading = source.take().events, source.read()
    source.close()

    assert 79 == events[-1].xid or b"1000000000000000000" in b"".join(noise)
    assert {one.reason for one in reading.rejected} <= {"content"}


class _Now:
    def monotonic(self) -> float:
        return 1000.0

    wall = monotonic

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def test_a_log_that_is_not_here_says_so(tmp_path, clock):
    source = Kmsg(tmp_path / "kmsg", clock)

    assert not source.available()
    assert "is not here; a container has to be given it" in source.why_not()
    assert ((), None) == (source.take().events, source.take().sequence)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_log_that_may_not_be_read_names_the_capability(tmp_path, clock, monkeypatch, number):
    def refuse(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(kmsg.os, "open", refuse)
    source = Kmsg(tmp_path / "kmsg", clock)

    assert not source.available()
    assert "CAP_SYSLOG" in source.why_not()


def test_a_symbolic_link_is_not_followed(tmp_path, clock):
    (tmp_path / "kmsg").symlink_to("/dev/zero")
    source = Kmsg(tmp_path / "kmsg", clock)

    assert not source.available()
    assert "symbolic link" in source.why_not()


def test_a_directory_is_one_error_that_says_what_would_be_right(tmp_path, clock):
    source = Kmsg(tmp_path, clock)

    assert source.available()
    assert () == source.take().events
    with pytest.raises(SourceError, match="is a directory; it must be the kernel's /dev/kmsg"):
        source.read()


def test_a_log_that_was_closed_stays_closed(log):
    source, write = log
    source.take()
    source.close()
    write(record(1, XID))

    assert () == source.take().events


def test_a_log_that_appears_later_is_read(tmp_path, clock):
    path = tmp_path / "kmsg"
    source = Kmsg(path, clock, clock.monotonic)
    before = source.available()
    path.write_text(record(1, XID))

    assert not before
    assert 1 == len(source.take().events)
    source.close()


def test_reading_a_quiet_log_costs_next_to_nothing(log):
    source, write = log
    write(*(record(number, "noise") for number in range(100)))
    source.take()
    began = time.process_time()
    for _ in range(1000):
        source.take()

    assert time.process_time() - began < 0.5  # 20 µs each when idle; a second has two
