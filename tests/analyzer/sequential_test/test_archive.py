"""Arrays from a run archive, written with the recorder's own writer."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analyzer.run import LoadError
from analyzer.sequential_test.archive import read
from analyzer.sequential_test.metrics import MonitoredMetric
from collector.contract import archive
from collector.recorder.parts import PartWriter, arrow_schema

OWN = MonitoredMetric("own_total", 1, True, 0.01, 0.14, 0.005, per="steps_total")
CLOCK = MonitoredMetric('clock{domain="sm"}', -1, True, 0.01, 0.14, 0.005)
RANKS = [
    (0, "node-0", 0, "GPU-a", 0, 0, 0, 0, None),
    (1, "node-0", 1, "GPU-b", 1, 0, 0, 1, None),
    (2, "node-1", None, None, 0, 1, 0, 0, None),
]


@pytest.fixture
def folder(tmp_path):
    schema = arrow_schema(archive.RANKS)
    columns = [pa.array(column, field.type) for column, field in
               zip(zip(*RANKS, strict=True), schema, strict=True)]  # fmt: skip
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), tmp_path / archive.RANKS_FILE)
    return tmp_path


def write(folder, *parts):
    writer = PartWriter(folder / archive.SAMPLES_FILE, archive.SAMPLES)
    for rows in parts:
        writer.add(rows)
        writer.close_part()


def clock(time, node, gpu, value, domain="sm"):
    return (time, node, gpu, None, "clock", f'domain="{domain}"', value)


def counter(time, rank, name, value):
    return (time, "node-0", None, rank, name, "", value)


def test_values_stand_at_their_check_metric_and_gpu(folder):
    write(
        folder,
        [clock(100.0, "node-0", 0, 1.0), clock(101.0, "node-0", 1, 2.0)],
        [clock(116.0, "node-0", 1, 3.0), clock(116.0, "node-0", 1, 9.0, "memory")],
    )
    found = read(folder, [CLOCK], 15.0)
    np.testing.assert_array_equal(
        found.values[:, 0], np.array([[1, 2, np.nan], [np.nan, 3, np.nan]], dtype=np.float32)
    )
    assert [115.0, 130.0] == found.times.tolist()
    assert ["GPU-a", "GPU-b", "rank 2"] == found.uuid.tolist()
    assert [0, 1, -1] == found.gpu.tolist()


def test_ranks_of_a_stage_are_peers_where_a_tensor_part_has_under_three(folder):
    write(folder, [clock(100.0, "node-0", 0, 1.0)])
    assert ["stage 0"] * 3 == read(folder, [CLOCK], 15.0).stratum.tolist()


def test_counters_are_told_per_step_and_a_reset_is_not_known(folder):
    own, steps = [10.0, 12.0, 1.0, 2.0], [100.0, 104.0, 1.0, 3.0]
    write(folder, [
        row
        for check in range(4)
        for row in (counter(15.0 * check, 2, "own_total", own[check]),
                    counter(15.0 * check, 2, "steps_total", steps[check]))
    ])  # fmt: skip
    found = read(folder, [OWN], 15.0).values[:, 0, 2]
    np.testing.assert_array_equal(found, [np.nan, 0.5, np.nan, 0.5])


def test_rows_about_nobody_known_are_left_out(folder):
    write(
        folder,
        [
            clock(100.0, "node-9", 0, 1.0),
            clock(100.0, "node-0", 7, 1.0),
            clock(100.0, "node-0", None, 1.0),
            clock(100.0, "node-0", 99999, 1.0),
            counter(100.0, 77, "own_total", 1.0),
            (100.0, "node-0", 0, None, "up", "", 1.0),
        ],
    )
    assert np.isnan(read(folder, [CLOCK, OWN], 15.0).values).all()


def test_one_file_reads_as_its_parts(folder):
    write(folder, [clock(100.0, "node-0", 0, 1.0)], [clock(131.0, "node-0", 0, 2.0)])
    parts = read(folder, [CLOCK], 15.0).values
    table = pq.read_table(folder / archive.SAMPLES_FILE)
    for path in (folder / archive.SAMPLES_FILE).iterdir():
        path.unlink()
    (folder / archive.SAMPLES_FILE).rmdir()
    pq.write_table(table, folder / archive.SAMPLES_FILE)
    np.testing.assert_array_equal(parts, read(folder, [CLOCK], 15.0).values)


def test_archive_without_samples_is_refused(folder):
    with pytest.raises(LoadError, match=r"samples\.parquet is not there"):
        read(folder, [CLOCK], 15.0)


def test_empty_samples_are_refused(folder):
    PartWriter(folder / archive.SAMPLES_FILE, archive.SAMPLES).close_part(even_if_empty=True)
    with pytest.raises(LoadError, match="tells no times"):
        read(folder, [CLOCK], 15.0)


@pytest.mark.parametrize(
    "name", [archive.RANKS_FILE, f"{archive.SAMPLES_FILE}/part-000000.parquet"]
)
def test_torn_file_is_refused_by_name(folder, name):
    write(folder, [clock(100.0, "node-0", 0, 1.0)])
    (folder / name).write_bytes((folder / name).read_bytes()[:50])
    with pytest.raises(LoadError, match=f"{name.split('/')[-1]} cannot be read as a table"):
        read(folder, [CLOCK], 15.0)


def test_times_of_years_are_refused(folder):
    write(folder, [clock(0.0, "node-0", 0, 1.0), clock(1.7e9, "node-0", 0, 1.0)])
    with pytest.raises(LoadError, match="must be 1 to 100000 checks of 15 s"):
        read(folder, [CLOCK], 15.0)
