"""Steps that come part by part: the same as all at once, and each part is read once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.read.archive import steps
from lockstep.analyzer.read.archive.files import Files
from lockstep.analyzer.read.archive.table import Table
from lockstep.collector.contract import archive
from lockstep.collector.recorder.parts import arrow_schema
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.archive import step_log
from lockstep.dashboard.sources.archive.step_log import COLUMNS, StepLog, Summary, summed
from tests.dashboard import archive_tables
from tests.dashboard.archives import Made

MADE = Made(steps=30, ranks_per_node=2)
CELLS = archive_tables.steps(MADE)
ROWS = archive_tables.step_table(CELLS)
TAGS = ("tags",)


def put(folder: Path, number: int, rows: pa.Table) -> None:
    home = folder / archive.STEPS_FILE
    home.mkdir(exist_ok=True)
    pq.write_table(rows, home / f"part-{number:06d}.parquet")


def table(folder: Path) -> Table:
    return Table(Files(folder), archive.STEPS_FILE, archive.STEPS)


def same(wanted: Summary, found: Summary) -> None:
    for name in ("steps", "attempts", "start"):
        np.testing.assert_array_equal(getattr(wanted, name), getattr(found, name))
    for name, line in wanted.lines.items():
        np.testing.assert_allclose(found.lines[name], line, rtol=1e-6, err_msg=name)
    for tag, told in wanted.tags.items():
        np.testing.assert_array_equal(told, found.tags[tag])


def at_once(rows: pa.Table) -> Summary:
    schema = Table(Files(Path()), archive.STEPS_FILE, archive.STEPS).schema(rows.column_names)
    return summed(steps.arranged(rows.cast(schema), ("start", "wall_seconds", *COLUMNS)))


@given(
    order=st.permutations(range(6)),
    cuts=st.lists(st.integers(1, ROWS.num_rows - 1), min_size=5, max_size=5, unique=True),
    looks=st.sets(st.integers(0, 5)),
)
@settings(max_examples=10, deadline=None)
def test_parts_in_any_order_and_cut_anywhere_say_what_all_rows_say(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], cuts: list[int], looks: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    edges = [0, *sorted(cuts), ROWS.num_rows]
    log = StepLog(table(folder))
    for number, place in enumerate(order):
        put(folder, number, ROWS.slice(edges[place], edges[place + 1] - edges[place]))
        if number in looks:
            log.summary(None)

    same(at_once(ROWS), log.summary(None))


def test_rows_for_steps_that_are_out_of_memory_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_log, "KEPT_BYTES", 0)
    log = StepLog(table(tmp_path))
    rank = ROWS["rank"].to_numpy()
    for number, chosen in enumerate((rank != 3, rank == 3)):
        put(tmp_path, number, ROWS.filter(pa.array(chosen)))
        log.summary(None)

    same(at_once(ROWS), log.summary(None))


def test_a_new_part_is_read_and_the_old_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, 0, ROWS.slice(0, 80))
    put(tmp_path, 1, ROWS.slice(80, 20))
    told = table(tmp_path)
    log = StepLog(told)
    log.summary(None)
    read: list[str] = []
    pieces = told.pieces

    def noted(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
        read.append(path.name)
        return pieces(path, schema)

    monkeypatch.setattr(told, "pieces", noted)
    put(tmp_path, 2, ROWS.slice(100, 20))

    same(at_once(ROWS), log.summary(None))
    log.steps(("own_seconds",), None)
    assert ["part-000002.parquet"] == read


def test_a_part_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    put(tmp_path, 0, ROWS.slice(0, 40))
    put(tmp_path, 1, ROWS.slice(40, 40))
    log = StepLog(table(tmp_path))
    log.summary(None)
    (tmp_path / archive.STEPS_FILE / "part-000000.parquet").unlink()

    same(at_once(ROWS.slice(40, 40)), log.summary(None))


def test_a_torn_part_is_told_and_read_once_it_is_whole(tmp_path: Path) -> None:
    put(tmp_path, 0, ROWS.slice(0, 80))
    put(tmp_path, 1, ROWS.slice(80, 40))
    last = tmp_path / archive.STEPS_FILE / "part-000001.parquet"
    last.write_bytes(last.read_bytes()[:-20])
    told = table(tmp_path)
    log = StepLog(told)

    same(at_once(ROWS.slice(0, 80)), log.summary(None))
    assert "part-000001.parquet" in told.missing()[0]
    put(tmp_path, 2, ROWS.slice(100, 20))
    put(tmp_path, 1, ROWS.slice(80, 20))
    same(at_once(ROWS), log.summary(None))
    assert () == told.missing()


@pytest.mark.parametrize("kept", [0, step_log.KEPT_BYTES])
def test_ranks_are_the_same_out_of_memory_and_out_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(step_log, "KEPT_BYTES", kept)
    for number in range(3):
        put(tmp_path, number, ROWS.slice(40 * number, 40))
    start = CELLS["start"]
    span = Span(float(start[5, 0]), float(start[25, 0]))
    found = StepLog(table(tmp_path)).steps(("own_seconds", *TAGS), span)

    np.testing.assert_allclose(found.cells["own_seconds"], CELLS["own_seconds"][5:25], rtol=1e-6)
    np.testing.assert_array_equal(np.arange(5, 25), found.steps)
    assert not found.tags["warmup"].any()


def test_many_small_parts_are_kept_as_few_tables(tmp_path: Path) -> None:
    log = StepLog(table(tmp_path))
    for number in range(70):
        put(tmp_path, number, ROWS.slice(number, 1))
        log.summary(None)

    same(at_once(ROWS.slice(0, 70)), log.summary(None))
    assert len(log._rows) <= step_log.MOST_CHUNKS


def test_a_table_without_parts_has_no_steps(tmp_path: Path) -> None:
    log = StepLog(table(tmp_path))
    assert not len(log.summary(None).steps)
    assert not len(log.steps(TAGS, None).steps)
    put(tmp_path, 0, arrow_schema(archive.STEPS).empty_table())
    assert not len(log.summary(Span(0.0, 1e9)).steps)
