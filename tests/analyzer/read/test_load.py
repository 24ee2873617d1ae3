"""Archives in every state: whole, torn, of another version, still being written."""

import dataclasses
import json
import os

import numpy as np
import pyarrow as pa
import pytest

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.rules.recording_rules.suspects import answered_of
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.shapes.windows import COLUMNS, MAX_GAP, _longest_unseen, from_samples
from lockstep.analyzer.verdict.pipeline import diagnose


def _edit(folder, **changes):
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_an_archive_of_files_and_part_folders_loads_whole(synthetic, tmp_path):
    run = load_archive(synthetic().write(tmp_path / "a"))

    assert ("synthetic-0", 4, 960, ("no ops.parquet",)) == (
        run.name, len(run.ranks), len(run.windows), run.missing,
    )  # fmt: skip
    assert set(COLUMNS) == set(run.windows.columns)


def test_an_archive_gives_the_verdict_of_the_run(synthetic, fault, tmp_path):
    recipe = synthetic(faults=[fault("thermal", 2)])
    direct = diagnose(recipe.run()).verdict
    loaded = diagnose(load_archive(recipe.write(tmp_path / "a"))).verdict

    assert direct.sentence == loaded.sentence


@pytest.mark.parametrize("kind", ["thermal", "data", "compute", "freeze"])
def test_scraped_counters_name_the_same_culprit_and_cause_as_steps(
    synthetic, fault, tmp_path, kind
):
    recipe = synthetic(steps=400, faults=[fault(kind, 2, 1.5, 160)])
    folder = recipe.write(tmp_path / "a")
    by_step = diagnose(load_archive(folder)).verdict
    (folder / "steps.parquet").unlink()
    by_scrape = load_archive(folder)
    verdict = diagnose(by_scrape).verdict

    assert "no steps.parquet" in by_scrape.missing
    assert [(c.rank, c.cause) for c in by_step.culprits] == [
        (c.rank, c.cause) for c in verdict.culprits
    ]
    assert verdict.culprits[0].from_step == pytest.approx(160, abs=45)


def test_a_healthy_run_is_healthy_from_scraped_counters_too(synthetic):
    run = synthetic(steps=400).run()
    verdict = diagnose(dataclasses.replace(run, windows=from_samples(run.samples))).verdict

    assert "healthy" == verdict.status


def test_the_truth_is_never_opened(synthetic, tmp_path):
    folder = synthetic().write(tmp_path / "a")
    os.mkfifo(folder / "truth.json")  # to open it would block for ever

    assert "healthy" == diagnose(load_archive(folder)).verdict.status


def test_a_run_without_an_end_loads_with_a_note(synthetic, tmp_path):
    folder = synthetic().write(tmp_path / "a")
    _edit(folder, ended=None, outcome=None)

    assert any("goes on or was killed" in word for word in load_archive(folder).missing)


def test_ranks_come_from_their_layout_where_nobody_described_them(synthetic, tmp_path):
    folder = synthetic().write(tmp_path / "a")
    (folder / "ranks.parquet").unlink()
    run = load_archive(folder)

    assert [(r, f"node-{r}", r) for r in range(4)] == [(i.rank, i.node, i.dp) for i in run.ranks]
    assert "rank 0, 1, 2, 3 never reported who it is" in run.missing


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(LoadError, match="is not a folder; give the folder of a run archive"):
        load_archive(tmp_path / "nowhere")


def test_a_folder_without_run_json_is_no_archive(tmp_path):
    with pytest.raises(LoadError, match=r"holds no run\.json"):
        load_archive(tmp_path)


def test_another_schema_version_is_named_with_the_right_one(synthetic, tmp_path):
    folder = synthetic().write(tmp_path / "a")
    _edit(folder, schema_version=7)

    with pytest.raises(LoadError, match="schema_version 7; this version of Lockstep reads 1"):
        load_archive(folder)


@pytest.mark.parametrize("name", ["schema_version", "layout"])
@pytest.mark.parametrize("value", ["a" * 100_000, ["a"] * 100_000, {"a" * 100_000: "a" * 100_000}])
def test_of_a_long_value_that_is_none_the_sentence_shows_the_beginning(
    synthetic, tmp_path, name, value
):
    folder = synthetic(steps=2).write(tmp_path / "a")
    _edit(folder, **{name: value})

    with pytest.raises(LoadError) as told:
        load_archive(folder)
    assert len(str(told.value)) < 400 + len(str(folder))


@pytest.mark.parametrize("text", ["", "{", "[]", '"a"', "\x00"])
def test_a_damaged_run_json_is_named(synthetic, tmp_path, text):
    folder = synthetic(steps=2).write(tmp_path / "a")
    (folder / "run.json").write_text(text)

    with pytest.raises(LoadError, match=r"run\.json"):
        load_archive(folder)


@pytest.mark.parametrize(
    "name", ["steps.parquet", "ranks.parquet", "samples.parquet/part-1.parquet"]
)
def test_a_truncated_parquet_file_is_named(synthetic, tmp_path, name):
    folder = synthetic().write(tmp_path / "a")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2])

    with pytest.raises(LoadError, match=f"{name.replace('.', '[.]')} is no whole Parquet file"):
        load_archive(folder)


def test_waiting_is_its_column_and_in_an_older_archive_what_the_own_time_leaves(
    synthetic, tmp_path
):
    import pyarrow.parquet as pq

    folder = synthetic().write(tmp_path / "a")
    table = pq.read_table(folder / "steps.parquet")
    older = load_archive(folder)
    rest = (older.windows["wall_seconds"] - older.windows["own_seconds"]).to_numpy()
    twice = pa.array(2 * (table["wall_seconds"].to_numpy() - table["own_seconds"].to_numpy()))
    pq.write_table(table.append_column("wait_seconds", twice), folder / "steps.parquet")
    stored = load_archive(folder)

    assert "wait_seconds" not in table.column_names
    assert older.windows["collective_seconds"].tolist() == rest.tolist()
    assert stored.windows["collective_seconds"].to_numpy() == pytest.approx(2 * rest, abs=1e-9)
    assert stored.missing == older.missing == ("no ops.parquet",)


def test_a_missing_column_is_named(synthetic, tmp_path):
    import pyarrow.parquet as pq

    folder = synthetic().write(tmp_path / "a")
    table = pq.read_table(folder / "steps.parquet").drop_columns(["own_seconds"])
    pq.write_table(table, folder / "steps.parquet")

    with pytest.raises(LoadError, match="lacks the column own_seconds"):
        load_archive(folder)


@pytest.mark.parametrize(
    "outcome",
    [
        5,
        [],
        {"ending": 5},
        {"ending": "crash", "reason": []},
        {"ending": "crash", "ranks": 5},
        {"ending": "crash", "ranks": [[1]]},
        {"ending": "crash", "ranks": ["1"]},
        {"ending": "crash", "ranks": [True]},
        {"ending": "crash", "exits": {}},
        {"ending": "crash", "exits": [{}]},
        {"ending": "crash", "exits": [7]},
        {"ending": "crash", "exits": [{"rank": 1, "code": None}]},
    ],
)
def test_an_outcome_that_no_run_can_have_is_told_in_a_sentence(synthetic, tmp_path, outcome):
    folder = synthetic(steps=20, telemetry=False).write(tmp_path / "a")
    _edit(folder, outcome=outcome)

    with pytest.raises(LoadError, match=r"run\.json: outcome.* is .*; it must be "):
        load_archive(folder)


@pytest.mark.parametrize("outcome", [None, "finished", {}, {"ending": "finished", "rank": None}])
def test_outcomes_of_older_archives_load(synthetic, tmp_path, outcome):
    folder = synthetic(steps=20, telemetry=False).write(tmp_path / "a")
    _edit(folder, outcome=outcome)

    diagnose(load_archive(folder))


def test_where_run_json_says_so_the_windows_are_those_of_a_span_of_samples(synthetic, tmp_path):
    folder = synthetic().write(tmp_path / "a")
    whole = load_archive(folder)
    times = np.unique(whole.samples["time"])
    start, end = times[len(times) // 4], times[len(times) // 2]

    _edit(folder, judged={"start": start, "end": end})
    part = load_archive(folder)

    assert (
        times[(times > start) & (times <= end)].tolist() == np.unique(part.samples["time"]).tolist()
    )
    assert from_samples(part.samples).equals(part.windows)
    assert part.ranks == whole.ranks
    assert (part.windows["steps"] > 1).any(), "of the counters, not of the steps"


@pytest.mark.parametrize(
    "span",
    [None, 5, {}, {"start": 1}, {"start": 2, "end": 1}, {"start": "a", "end": "b"},
     {"start": 1, "end": 2}],
)  # fmt: skip
def test_a_span_that_is_none_or_has_no_samples_is_left_out(synthetic, tmp_path, span):
    folder = synthetic().write(tmp_path / "a")
    whole = load_archive(folder)
    _edit(folder, judged=span)

    assert whole.windows.equals(load_archive(folder).windows)


@pytest.mark.parametrize("lacks", [["no operations of n7"], ["no operations of n7", 3, {}]])
def test_what_the_record_lacks_is_missing(synthetic, tmp_path, lacks):
    folder = synthetic().write(tmp_path / "a")
    _edit(folder, missing=lacks)

    assert "no operations of n7" in load_archive(folder).missing
    _edit(folder, missing="all")
    assert ("no ops.parquet",) == load_archive(folder).missing


@pytest.mark.parametrize("answered", [{}, {"told": -1, "expected": 4}, {"told": 1, "expected": 0}])
def test_a_run_of_which_nobody_knows_how_much_was_read_was_read_whole(answered):
    assert answered_of({"answered": answered}) is None


def test_a_scrape_that_is_lost_inside_a_long_step_loses_no_window():
    """Steps of a minute, scraped every five seconds: no counter moves in between."""
    time = np.arange(0.0, 3600.0, 5.0)

    def unseen(kept):
        return _longest_unseen(kept, np.flatnonzero(np.append(True, np.diff(kept // 60.0) > 0)))

    assert (unseen(np.delete(time, [3, 4, 5, 6, 40, 100, 101, 102, 103, 104])) <= MAX_GAP).all()
    assert 1 == (unseen(np.delete(time, slice(60, 120))) > MAX_GAP).sum()
