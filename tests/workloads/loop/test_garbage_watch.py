"""Collections of garbage become one operation of the ring."""

import gc
import threading
from collections.abc import Iterator

import pytest

from lockstep.workloads.loop.loop import GarbageWatch
from lockstep.workloads.ring import OP_INDEX


class Writer:
    """Keeps the local operations that a ring would hold."""

    def __init__(self) -> None:
        self.operations: list[tuple[int, int, int]] = []

    def local(self, op: int, start_ns: int, end_ns: int) -> None:
        self.operations.append((op, start_ns, end_ns))


@pytest.fixture
def watched() -> Iterator[tuple[GarbageWatch, Writer]]:
    writer = Writer()
    gc.disable()
    watch = GarbageWatch(writer)  # type: ignore[arg-type]
    yield watch, writer
    watch.close()
    gc.enable()


def test_all_collections_of_a_step_are_one_operation(watched: tuple[GarbageWatch, Writer]) -> None:
    watch, writer = watched
    gc.collect()
    gc.collect()
    watch.write()

    [(op, start, end)] = writer.operations
    assert OP_INDEX["gc"] == op
    assert end > start


def test_a_step_without_a_collection_has_none(watched: tuple[GarbageWatch, Writer]) -> None:
    watch, writer = watched
    gc.collect()
    watch.write()
    watch.write()

    assert 1 == len(writer.operations)


def test_another_threads_collection_is_not_this_ones(watched: tuple[GarbageWatch, Writer]) -> None:
    watch, writer = watched
    other = threading.Thread(target=gc.collect)
    other.start()
    other.join()
    watch.write()

    assert [] == writer.operations


def test_a_closed_watch_is_gone() -> None:
    before = list(gc.callbacks)
    GarbageWatch(Writer()).close()  # type: ignore[arg-type]

    assert before == gc.callbacks
