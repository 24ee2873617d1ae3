"""Clients that wait for what takes long have their turn one after the other."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockstep.collector.exporter.server import InTurn

PATIENT = 10.0


class Waiting:
    """Clients in a queue, each in a thread of its own, and the order in which they had their turn.

    Who has it, keeps it until `over` is set.
    """

    def __init__(self, queue: InTurn) -> None:
        self.queue = queue
        self.over = threading.Event()
        self.order: list[str] = []
        self.refused: list[str] = []
        self._pool = ThreadPoolExecutor(32)
        self._count = 0

    def ask(self, client: str) -> None:
        """Returns once it is in the queue, or refused."""
        before = self.queue._held.total() + len(self.refused)
        self._pool.submit(self._turn, client)
        end = time.monotonic() + PATIENT
        while self.queue._held.total() + len(self.refused) == before:
            assert time.monotonic() < end
            time.sleep(0.001)

    def _turn(self, client: str) -> None:
        with self.queue.turn(client) as let_in:
            (self.order if let_in else self.refused).append(client)
            if let_in:
                self.over.wait(PATIENT)

    def end(self) -> list[str]:
        self.over.set()
        self._pool.shutdown()
        return self.order


def test_who_asks_often_waits_behind_his_own():
    waiting = Waiting(InTurn(8, 4, PATIENT))
    for client in "aaaabb":
        waiting.ask(client)
    waiting.ask("c")

    assert list("aabcaba") == waiting.end()


def test_a_client_has_so_many_and_the_rest_is_refused():
    waiting = Waiting(InTurn(8, 3, PATIENT))
    for client in "aaaab":
        waiting.ask(client)

    assert ["a"] == waiting.refused
    assert 4 == len(waiting.end())


def test_who_finds_it_full_takes_the_last_place_of_who_has_most():
    waiting = Waiting(InTurn(4, 3, PATIENT))
    for client in "aaab":
        waiting.ask(client)
    waiting._pool.submit(waiting._turn, "c")

    assert sorted("aabc") == sorted(_once(waiting, lambda: waiting.refused == ["a"]))


def test_where_all_have_as_many_who_comes_is_refused():
    waiting = Waiting(InTurn(2, 2, PATIENT))
    for client in "abc":
        waiting.ask(client)

    assert ["c"] == waiting.refused
    assert ["a", "b"] == waiting.end()


def test_nobody_waits_longer_than_is_said():
    waiting = Waiting(InTurn(4, 2, 0.05))
    waiting.ask("a")
    waiting._pool.submit(waiting._turn, "b")

    assert ["a"] == _once(waiting, lambda: waiting.refused == ["b"])


def test_a_turn_ends_where_what_it_was_for_fails():
    queue = InTurn(2, 2, PATIENT)
    with pytest.raises(OSError, match="gone"), queue.turn("a"):
        raise OSError("gone")

    with queue.turn("b") as let_in:
        assert let_in


def _once(waiting: Waiting, holds) -> list[str]:
    end = time.monotonic() + PATIENT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)
    return waiting.end()
