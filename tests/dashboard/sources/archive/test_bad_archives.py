"""Whatever lies in a folder: a sentence and a next step, and what is whole is shown."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.archives import Made, write

RUN = Made().name
HOSTILE = ("<script>alert(1)</script>", "**bold** [x](http://y)\nline", "节点-" + "x" * 10_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("small") / "a", Made(slow=2, steps=40, onset=15))


def every_question(source: ArchiveSource) -> list[tuple[str, Callable[[], Any]]]:
    """All methods with the ids that there are."""
    run, span = source.runs()[0].run, source.extent()
    node = (*source.nodes(), "node-0")[0]
    return [
        ("answer", source.answer), ("spec", lambda: source.spec(run)),
        ("verdict", lambda: source.verdict(run)), ("findings", lambda: source.findings(span)),
        ("events", lambda: source.events(span)), ("lines", lambda: source.run_lines(run, span)),
        ("ranks", lambda: source.ranks(run, span)),
        ("rank_times", lambda: source.rank_times(run, span)),
        ("collectives", lambda: source.collectives(run, span)),
        ("arrivals", lambda: source.arrivals(run, span)),
        ("operations", lambda: source.operations(run, 0, span)),
        ("trace", lambda: source.trace(run, span)),
        *((each.key, lambda each=each: source.fleet(each)) for each in FLEET_METRICS),
        ("node", lambda: source.node(node, span)),
        ("node_lines", lambda: source.node_lines(node, span)),
        ("gpu_lines", lambda: source.gpu_lines(node, 0, span)), ("health", source.health),
        ("folder", lambda: source.folder(run)),
    ]  # fmt: skip


OF_THE_RUN = ("answer", "spec", "findings", "lines", "ranks", "slowdown", "node", "health")
OF_THE_VERDICT = ("answer", "verdict", "findings", "events", "lines")


def ask_everything(source: ArchiveSource, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """What answered; TroubleError is an answer, all else is a bug."""
    found: dict[str, Any] = {}
    for name, ask in every_question(source):
        if only and name not in only:
            continue
        try:
            found[name] = ask()
        except TroubleError as trouble:
            found[name] = trouble
    troubles = [each for each in found.values() if isinstance(each, TroubleError)]
    assert all(each.sentence and each.next_step for each in troubles)
    return found


def trouble_of(folder: Path) -> TroubleError:
    with pytest.raises(TroubleError) as trouble:
        ArchiveSource(folder).answer()
    return trouble.value


def test_a_folder_that_is_no_archive(tmp_path: Path) -> None:
    assert Kind.NO_SOURCE == trouble_of(tmp_path).kind


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert Kind.NO_SOURCE == trouble_of(tmp_path / "nowhere").kind


@pytest.mark.parametrize(
    "text", ['{"schema_version": 1, "ru', "[1]", "", "nan", "[" * 100_000, "\xff\xfe"]
)
def test_a_torn_run_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text, encoding="latin-1")

    assert Kind.UNREADABLE == trouble_of(tmp_path).kind


def test_a_newer_schema(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema_version": 2}')
    trouble = trouble_of(tmp_path)

    assert Kind.UNREADABLE == trouble.kind
    assert "schema_version 2" in trouble.sentence


def test_a_file_that_may_not_be_read(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    (folder / "run.json").chmod(0)
    if os.access(folder / "run.json", os.R_OK):
        pytest.skip("this user may read everything")

    assert Kind.REFUSED == trouble_of(folder).kind


def test_an_empty_archive_answers_everything(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema_version": 1, "run": "x"}')
    found = ask_everything(ArchiveSource(tmp_path))

    assert 9 == len(found["lines"])
    assert not any(each.values and each.times.size for each in found["lines"])
    assert "no steps.parquet" in found["answer"].missing


@pytest.mark.parametrize("name", ["steps.parquet", "samples.parquet", "ops.parquet"])
def test_a_torn_part_is_left_out_and_told(small: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    (folder / name / "part-000001.parquet").write_bytes(b"PAR1 and then the disk was full")
    source = ArchiveSource(folder)
    found = ask_everything(source)

    assert not [each for each in found.values() if isinstance(each, TroubleError)]
    assert any(name in each and "part-000001" in each for each in source.answer().missing)
    assert found["lines"][2].times.size


def test_a_torn_table_leaves_the_others(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    shutil.rmtree(folder / "samples.parquet")
    (folder / "samples.parquet").write_bytes(b"nothing")
    found = ask_everything(ArchiveSource(folder))

    assert found["lines"][0].times.size
    assert not found["lines"][5].times.size


def test_a_column_that_is_not_there_is_told(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    for part in (folder / "steps.parquet").iterdir():
        pq.write_table(pq.read_table(part).drop_columns(["loss", "own_seconds"]), part)
    source = ArchiveSource(folder)
    found = ask_everything(source)

    assert not found["lines"][0].times.size
    assert found["lines"][1].times.size
    assert "steps.parquet has no column loss" in source.answer().missing


def test_a_column_of_another_kind_is_a_torn_part(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    part = folder / "steps.parquet" / "part-000001.parquet"
    table = pq.read_table(part)
    place = table.column_names.index("start")
    pq.write_table(table.set_column(place, "start", pa.array(["never"] * table.num_rows)), part)
    found = ask_everything(ArchiveSource(folder))

    assert found["lines"][0].times.size


@pytest.mark.parametrize(
    "change",
    [{"layout": [1]}, {"layout": {"nodes": 1e300, "dp": "x"}}, {"spec": 3}, {"started": 7e99},
     {"started": "yesterday", "ended": []}, {"outcome": "?"}, {"simulated": {"a": 1}},
     {"run": 3}, {"run": "x" * 10_000}, {"run": "a\nb"}, {"recording": 5}, {"clock": None},
     {"measured_peak_flops": "fast"}, {"layout": {"nodes": 10**6, "ranks_per_node": 10**6}}],
    ids=str,
)  # fmt: skip
def test_a_run_file_with_values_of_another_kind(
    small: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    meta = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(meta | change))
    source = ArchiveSource(folder)
    ask_everything(source, OF_THE_RUN)

    assert len(source.runs()[0].run) <= 128


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 9}, {"status": "fine"}, {"culprits": [3]}, {"culprits": "x"},
     {"sentence": None}, {"anomalies": None}],
    ids=str,
)  # fmt: skip
def test_a_verdict_of_another_shape_is_unreadable(
    small: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    verdict = json.loads((folder / "verdict.json").read_text())
    (folder / "verdict.json").write_text(json.dumps(verdict | change))
    found = ask_everything(ArchiveSource(folder), OF_THE_VERDICT)

    assert Kind.UNREADABLE == found["verdict"].kind
    assert found["lines"][0].times.size


@pytest.mark.parametrize(
    "change",
    [{"rank": "two"}, {"since": "never"}, {"gpu": -4}, {"confidence": float("nan")},
     {"node": 5, "to_step": "x"}, {"evidence": {"for": 1}}, {"tier": []}],
    ids=str,
)  # fmt: skip
def test_a_culprit_with_values_of_another_kind(
    small: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    verdict = json.loads((folder / "verdict.json").read_text())
    verdict["culprits"][0] |= change
    (folder / "verdict.json").write_text(json.dumps(verdict))
    found = ask_everything(ArchiveSource(folder), OF_THE_VERDICT)

    assert 1 == len(found["findings"])


def test_impossible_steps_are_left_out(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    part = folder / "steps.parquet" / "part-000000.parquet"
    table = pq.read_table(part).to_pandas()
    table.loc[3, "step"] = -5
    table.loc[4, "rank"] = -1
    table.loc[5, "start"] = 1e300
    table.loc[6, "wall_seconds"] = np.nan
    table.loc[7, "step"] = 2**62
    table.loc[8, "rank"] = 2**31 - 1
    pq.write_table(pa.Table.from_pandas(table, pq.read_schema(part), preserve_index=False), part)
    found = ask_everything(ArchiveSource(folder))

    assert not isinstance(found["lines"], TroubleError)
    assert not isinstance(found["ranks"], TroubleError)


def test_hostile_names_are_texts(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", Made(node_names=HOSTILE, slow=2))
    source = ArchiveSource(folder)
    found = ask_everything(source)

    assert HOSTILE == source.nodes()
    assert not [name for name, each in found.items() if isinstance(each, TroubleError)]


def test_a_link_that_leads_out_is_not_followed(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    shutil.move(folder / "verdict.json", tmp_path / "verdict.json")
    (folder / "verdict.json").symlink_to(tmp_path / "verdict.json")
    shutil.move(folder / "ops.parquet", tmp_path / "ops.parquet")
    (folder / "ops.parquet").symlink_to(tmp_path / "ops.parquet")
    source = ArchiveSource(folder)

    assert source.verdict(RUN) is None
    assert "no ops.parquet" in source.answer().missing


def test_a_folder_that_goes_away_while_it_is_open(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    source = ArchiveSource(folder)
    span = source.extent()
    shutil.rmtree(folder)

    for ask in (source.answer, source.runs, lambda: source.run_lines(RUN, span), source.health):
        with pytest.raises(TroubleError) as trouble:
            ask()
        assert Kind.NO_SOURCE == trouble.value.kind


def test_a_restart_is_an_event_and_hides_no_step(small: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(small, tmp_path / "a")
    part = folder / "steps.parquet" / "part-000001.parquet"
    table = pq.read_table(part).to_pandas()
    again = table.assign(
        attempt=1, step=table["step"] - 10, start=table["start"] + 40.0
    ).astype({"attempt": "int32"})  # fmt: skip
    schema = pq.read_schema(part)
    more = pa.Table.from_pandas(again, schema, preserve_index=False)
    pq.write_table(more, part.with_name("part-000002.parquet"))
    source = ArchiveSource(folder)
    events = source.events(Span(0, 4e9))
    step = source.run_lines(RUN, Span(0, 4e9))[2]

    assert ["restart: attempt 1 from step 10"] == [
        each.text for each in events if each.kind == "restart"
    ]
    assert 40 + 20 <= len(step.times)
    assert (np.diff(step.times) > 0).all()
    assert np.isnan(step.values["median"]).any()  # nothing is known of the time between
