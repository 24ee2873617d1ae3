"""The table of results: nothing is lost, nothing is garbled, columns stay where they are."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.bench import results
from lockstep.bench.results import COLUMNS, ResultError
from tests.bench.rows import row


def test_what_is_written_is_read_with_every_column_in_order(tmp_path: Path) -> None:
    told = row(
        cell="a", step_seconds=0.1, rank_own_seconds=[0.09, 0.08], simulated=["gpu telemetry"]
    )
    results.write(tmp_path, told)

    (found,) = results.read(tmp_path)
    assert [column.name for column in COLUMNS] == list(found)
    assert told == {name: found[name] for name in told}
    assert found["reason"] is None


def test_a_metric_that_first_appears_in_a_later_run_gets_a_column(tmp_path: Path) -> None:
    results.write(tmp_path, row(cell="a"))
    results.write(tmp_path, row(cell="b", metric_accuracy=0.8))
    results.write(tmp_path, row(cell="c", metric_a=1.0))

    found = results.read(tmp_path)
    assert ["metric_a", "metric_accuracy"] == list(found[0])[len(COLUMNS) :]
    assert [None, 0.8, None] == [each["metric_accuracy"] for each in found]


def test_a_cell_that_is_written_again_replaces_itself_alone(tmp_path: Path) -> None:
    results.write(tmp_path, row(cell="a", repeat=0, step_seconds=0.1))
    results.write(tmp_path, row(cell="a", repeat=1, step_seconds=0.2))
    results.write(tmp_path, row(cell="a", repeat=0, step_seconds=0.3))

    assert [0.3, 0.2] == [each["step_seconds"] for each in results.read(tmp_path)]


def test_cells_whose_names_differ_in_signs_alone_are_two(tmp_path: Path) -> None:
    for cell in ("a/b", "a b", "a.b"):
        results.write(tmp_path, row(cell=cell))

    assert {"a/b", "a b", "a.b"} == {each["cell"] for each in results.read(tmp_path)}


def test_sixty_writers_at_once_leave_sixty_rows(tmp_path: Path) -> None:
    long = "x" * 5000  # a report of Kubebench lost what lay beyond 4,096 bytes

    def write(number: int) -> None:
        told = row(cell=f"cell-{number:02d}", sentence=long, metric_n=float(number))
        results.write(tmp_path, told)

    with ThreadPoolExecutor(60) as writers:
        list(writers.map(write, range(60)))

    found = results.read(tmp_path)
    assert [f"cell-{number:02d}" for number in range(60)] == [each["cell"] for each in found]
    assert list(range(60)) == [each["metric_n"] for each in found]
    assert {5000} == {len(str(each["sentence"])) for each in found}


def test_a_writer_that_was_killed_leaves_no_row_and_spoils_none(tmp_path: Path) -> None:
    results.write(tmp_path, row(cell="a"))
    (tmp_path / ".b.0123.new").write_bytes(b"PAR1 half a par")

    assert ["a"] == [each["cell"] for each in results.read(tmp_path)]


def test_a_disk_that_is_full_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results.write(tmp_path, row(cell="a", step_seconds=0.1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        results.write(tmp_path, row(cell="a", step_seconds=0.2))
    assert [0.1] == [each["step_seconds"] for each in results.read(tmp_path)]
    assert 1 == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"speed": 1.0}, "no column 'speed'"),
        ({"step_seconds": "fast"}, "step_seconds is 'fast'; it must be double"),
        ({"step_seconds": float("nan")}, "step_seconds is nan"),
        ({"metric_x": "abc"}, "metric_x is 'abc'; it must be double"),
        ({"nodes": True}, "nodes is True"),
        ({"nodes": 2.0}, "nodes is 2.0"),
        ({"emulated_devices": 1}, "emulated_devices is 1"),
        ({"rank_own_seconds": [1.0, None]}, "rank_own_seconds is"),
        ({"cell": ""}, "needs a cell"),
    ],
)
def test_a_bad_value_is_refused_at_the_door(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(ResultError, match=said):
        results.write(tmp_path, {**row(cell="a"), **wrong})

    assert not list(tmp_path.iterdir())


def test_what_is_no_table_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="nowhere is no table"):
        results.read(tmp_path / "nowhere")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(ResultError, match=r"torn.parquet cannot be read"):
        results.read(tmp_path)
    (tmp_path / "torn.parquet").unlink()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ResultError, match=r"other.parquet is no part"):
        results.read(tmp_path)


def test_duckdb_reads_the_folder(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    results.write(tmp_path, row(cell="a", nodes=2))
    results.write(tmp_path, row(cell="b", nodes=4, metric_accuracy=0.8))

    sql = f"SELECT cell, nodes, metric_accuracy FROM read_parquet('{tmp_path}/*.parquet', union_by_name = true) ORDER BY cell"  # noqa: E501
    assert [("a", 2, None), ("b", 4, 0.8)] == duckdb.sql(sql).fetchall()
