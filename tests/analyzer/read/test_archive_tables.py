"""Columns and windows of an archive's tables: no more is read or held than was asked for."""

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.analyzer.read.archive import table
from lockstep.analyzer.read.archive.load import Archive, load_archive
from lockstep.analyzer.shapes.run import LoadError, Span


@pytest.fixture
def folder(synthetic, tmp_path):
    return synthetic(steps=60).write(tmp_path / "a")


def parts_of(table):
    """Its parts, each opened as a file of its own."""
    return [pq.read_table(path) for path in table.parts()]


def test_batches_hold_the_columns_that_are_asked_for(folder):
    steps = Archive(folder).steps

    found = list(steps.batches(["step", "own_seconds"]))

    assert all(["step", "own_seconds"] == each.column_names for each in found)
    assert sum(each.num_rows for each in parts_of(steps)) == sum(each.num_rows for each in found)


def test_a_window_gives_the_rows_that_began_in_it(folder):
    steps = Archive(folder).steps
    start = pa.concat_tables(parts_of(steps))["start"].to_numpy()
    span = Span(float(start.min()) + 1.0, float(start.min()) + 3.0)

    found = pa.concat_tables(steps.batches(["start"], span))["start"].to_numpy()

    wanted = start[(start >= span.start) & (start < span.end)]
    assert 0 < len(wanted) < len(start)
    assert sorted(wanted.tolist()) == sorted(found.tolist())


def test_parts_outside_the_window_are_not_read(folder, monkeypatch):
    samples = Archive(folder).samples
    last = max(part["time"].to_numpy().max() for part in parts_of(samples))
    read = []
    pieces = samples.pieces
    monkeypatch.setattr(
        samples, "pieces", lambda path, schema: read.append(path) or pieces(path, schema)
    )

    assert [] == list(samples.batches(["value"], Span(last + 60.0, last + 120.0)))
    assert [] == read


def test_words_of_samples_are_categories_in_the_order_of_their_letters(folder):
    samples = load_archive(folder).samples

    for name in ("node", "metric", "labels"):
        words = samples[name].cat.categories.tolist()
        assert words == sorted(words)
        assert "" in words


def test_of_an_archive_that_is_not_ours_damage_is_told_and_links_are_not_followed(folder, tmp_path):
    part = folder / "samples.parquet" / "part-1.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    (folder / "steps.parquet").rename(tmp_path / "steps.parquet")
    (folder / "steps.parquet").symlink_to(tmp_path / "steps.parquet")

    foreign, ours = Archive(folder), Archive(folder, strict=True)

    assert list(foreign.samples.batches(["value"]))
    assert any("part-1.parquet" in each for each in foreign.samples.missing())
    assert [] == foreign.steps.parts()
    assert ours.steps.parts()
    with pytest.raises(LoadError, match=r"part-1\.parquet is no whole Parquet file"):
        list(ours.samples.batches(["value"]))


def test_parts_beyond_those_that_are_read_are_told(folder, monkeypatch):
    monkeypatch.setattr("lockstep.analyzer.read.archive.table.MOST_PARTS", 1)
    samples = folder / "samples.parquet"
    beyond = len(list(samples.iterdir())) - 1

    told = f"samples.parquet has over 1 parts: the last {beyond} are not read"
    assert beyond
    assert told in load_archive(folder).missing
    archive = Archive(folder)
    archive.samples.look()
    assert (told,) == archive.samples.missing()


@pytest.mark.parametrize("where", ["instead of a table", "among its parts"])
def test_a_pipe_is_not_waited_for(folder, where):
    samples = folder / "samples.parquet"
    if where == "instead of a table":
        shutil.rmtree(samples) if samples.is_dir() else samples.unlink()
        os.mkfifo(samples)
        with pytest.raises(LoadError, match="no regular file"):
            load_archive(folder)
    else:
        if samples.is_file():
            samples.rename(folder / "part")
            samples.mkdir()
            (folder / "part").rename(samples / "part-000000.parquet")
        os.mkfifo(samples / "part-000009.parquet")
        assert len(load_archive(folder).samples)
    assert Archive(folder).samples.missing() is not None


def test_a_table_with_a_column_twice_is_a_sentence(folder):
    samples = folder / "samples.parquet"
    part = samples if samples.is_file() else sorted(samples.glob("*.parquet"))[0]
    rows = pq.read_table(part)
    pq.write_table(rows.append_column("value", rows["value"]), part)
    with pytest.raises(LoadError):
        load_archive(folder)


def test_parts_with_other_words_give_the_frame_of_one_file(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "b")
    rows = pa.concat_tables(parts_of(Archive(folder).samples)).sort_by("metric")
    for path in Archive(tmp_path / "b").samples.parts():
        path.unlink()
    (tmp_path / "b" / "samples.parquet").mkdir(exist_ok=True)
    for number, begin in enumerate(range(0, len(rows), 50)):
        part = tmp_path / "b" / "samples.parquet" / f"part-{number:04}.parquet"
        pq.write_table(rows.slice(begin, 50), part)
    pq.write_table(rows, tmp_path / "one.parquet")
    monkeypatch.setattr(table, "BATCH_ROWS", 120)

    found = load_archive(tmp_path / "b").samples

    wanted = pq.read_table(tmp_path / "one.parquet").to_pandas()
    assert len(found) == len(wanted) > 500
    for name in ("time", "value"):
        assert wanted[name].tolist() == found[name].tolist()
    for name in ("node", "metric", "labels"):
        assert list(wanted[name].fillna("-")) == list(found[name].astype(object).fillna("-"))
        assert sorted({"", *wanted[name].dropna()}) == found[name].cat.categories.tolist()
    for name in ("rank", "gpu"):
        assert "Int32" == found[name].dtype
        assert list(wanted[name].fillna(-1)) == list(found[name].fillna(-1))
