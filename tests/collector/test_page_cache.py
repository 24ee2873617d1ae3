"""Pages that lie ready: who shares one, when they are made ahead, and when that ends."""

import threading
import time

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.exporter.page import OFTEN, PAGE_SECONDS, Form, PageCache

PLAIN, PACKED = (Form.TEXT, False), (Form.TEXT, True)


class Maker:
    """Makes numbered pages; fails while it is broken."""

    def __init__(self) -> None:
        self.made: list[tuple[Form, bool]] = []
        self.threads: set[str] = set()
        self.broken = False

    def __call__(self, form: Form, packed: bool) -> bytes:
        if self.broken:
            raise ValueError("broken")
        self.made.append((form, packed))
        self.threads.add(threading.current_thread().name)
        return b"%d" % len(self.made)


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_those_who_ask_together_share_a_page_and_later_ones_get_another(clock):
    ahead = PageCache(Maker(), clock)

    first = [ahead.body(*PLAIN), ahead.body(*PLAIN)]
    packed = ahead.body(*PACKED)
    clock.sleep(PAGE_SECONDS + 0.01)

    assert ([b"1", b"1"], b"2") == (first, packed)
    assert b"3" == ahead.body(*PLAIN)


def test_who_asks_seldom_has_no_page_made_ahead(clock):
    maker = Maker()
    ahead = PageCache(maker, clock)
    for _ in range(10):
        ahead.body(*PLAIN)
        clock.sleep(1.0)

    assert (10, {"MainThread"}) == (len(maker.made), maker.threads)


def test_who_asks_often_finds_pages_ready_until_the_asking_ends():
    maker = Maker()
    ahead = PageCache(maker, SystemClock())
    deadline = time.monotonic() + 60
    while "ahead" not in maker.threads:
        ahead.body(*PLAIN)
        assert time.monotonic() < deadline
        time.sleep(0.02)

    until(lambda: ahead._thread is None)
    assert "ahead" not in {thread.name for thread in threading.enumerate()}
    assert {PLAIN} == set(maker.made)


def test_a_page_that_cannot_be_made_is_the_askers_error_and_no_old_page(clock):
    maker = Maker()
    ahead = PageCache(maker, clock)
    ahead.body(*PLAIN)
    maker.broken = True
    clock.sleep(PAGE_SECONDS + 0.01)

    with pytest.raises(ValueError, match="broken"):
        ahead.body(*PLAIN)
    maker.broken = False
    assert b"2" == ahead.body(*PLAIN)


def test_many_who_ask_at_once_wait_for_one_page(clock):
    maker, go = Maker(), threading.Event()

    def slow(form: Form, packed: bool) -> bytes:
        go.wait(10)
        return maker(form, packed)

    ahead, bodies = PageCache(slow, clock), []
    threads = [
        threading.Thread(target=lambda: bodies.append(ahead.body(*PLAIN))) for _ in range(OFTEN - 1)
    ]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()

    assert [b"1"] * (OFTEN - 1) == bodies
