"""All samples that go in come out, and a summary loses none (contracts 8 to 10)."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="needs the extra api")

import lockstep
from lockstep.bench.api import lines as posted
from lockstep.bench.api.lines import Line, windows
from lockstep.collector.contract.archive import POSTED_FILE
from tests.bench.api.served import Api

BEGIN = 1_795_000_000.0


def post(api: Api, metrics: int, samples: int) -> None:
    told = [
        {"metric": f"m{metric}", "value": float(sample), "time": BEGIN + sample, "rank": 0}
        for sample in range(samples) for metric in range(metrics)
    ]  # fmt: skip
    assert api.client.post_metrics("made-1", told) == metrics * samples


def test_a_hundred_samples_of_ten_metrics_come_out_whole(api: Api) -> None:
    post(api, 10, 100)
    names = [f"m{each}" for each in range(10)]

    for query, wanted in (
        ({}, 100), ({"summarize": 10}, 10), ({"last_n": 5}, 5), ({"since": BEGIN + 90}, 10),
        ({"until": BEGIN + 9}, 10), ({"last_n": 50, "summarize": 7}, 7),
    ):  # fmt: skip
        found = api.client.metrics("made-1", names, **query)  # type: ignore[arg-type]
        assert {each["metric"]: len(each["points"]) for each in found} == dict.fromkeys(
            names, wanted
        )

    newest = api.client.metrics("made-1", "m3", last_n=5)[0]["points"]
    assert [each["value"] for each in newest] == [95, 96, 97, 98, 99]


def test_a_summary_of_105_samples_has_its_tail(api: Api) -> None:
    post(api, 1, 105)

    points = api.client.metrics("made-1", "m0", summarize=10)[0]["points"]

    assert len(points) == 10
    assert sum(each["count"] for each in points) == 105
    assert points[-1]["last"] == 104
    assert points[-1]["to"] == BEGIN + 104
    assert points[0]["from"] == BEGIN


@given(samples=st.integers(1, 400), count=st.integers(1, 500))
def test_every_sample_is_in_exactly_one_window(samples: int, count: int) -> None:
    values = np.arange(samples, dtype=np.float64)
    found = windows(Line("m", "", None, None, "", values, values), count).windows

    assert len(found) == min(samples, count)
    assert [each for one in found for each in range(int(one.begin), int(one.end) + 1)] == list(
        range(samples)
    )
    assert found[-1].last == samples - 1
    assert sum(each.count for each in found) == samples
    assert max(each.count for each in found) - min(each.count for each in found) <= 1


def test_values_that_are_no_numbers_are_null_and_counted() -> None:
    values = np.array([1.0, np.nan, np.nan, np.inf])
    first, last = windows(Line("m", "", None, None, "", np.arange(4.0), values), 2).windows

    assert (first.count, first.mean, first.most) == (2, 1.0, 1.0)
    assert last.count == 2
    assert np.isnan(last.mean)


def test_a_bad_value_is_refused_whole_and_breaks_no_later_read(api: Api) -> None:
    post(api, 1, 3)
    with pytest.raises(lockstep.ApiError, match=r"samples\[1\].value"):
        api.client.post_metrics(
            "made-1", [{"metric": "m0", "value": 4}, {"metric": "m0", "value": "abc"}]
        )

    assert len(api.client.metrics("made-1", "m0")[0]["points"]) == 3
    assert len(api.client.metrics("made-1", "m0", summarize=2)[0]["points"]) == 2


def test_scrapes_and_steps_are_series_too(api: Api) -> None:
    known = {each["metric"] for each in api.client.series("made-1")}
    assert {"loss", "own_seconds", "lockstep_gpu_temperature_celsius"} <= known

    loss = api.client.metrics("made-1", "own_seconds", rank=2)
    assert [each["rank"] for each in loss] == [2]
    assert [each["step"] for each in loss[0]["points"]] == list(range(20))
    hot = api.client.metrics("made-1", "lockstep_gpu_temperature_celsius", node="node-1")
    assert {each["node"] for each in hot} == {"node-1"}


def test_a_table_and_a_zip_have_the_same_samples(api: Api) -> None:
    post(api, 3, 7)
    names = ["m0", "m1", "m2"]

    table = pq.read_table(io.BytesIO(api.client.download_metrics("made-1", "parquet", names)))
    packed = zipfile.ZipFile(io.BytesIO(api.client.download_metrics("made-1", "zip", names)))

    assert table.num_rows == 21
    assert sorted(set(table["metric"].to_pylist())) == names
    assert packed.namelist() == ["m0.json", "m1.json", "m2.json"]
    told = json.loads(packed.read("m1.json"))
    assert told["series"] == api.client.metrics("made-1", "m1")
    windowed = api.client.download_metrics("made-1", "parquet", names, summarize=2)
    assert pq.read_table(io.BytesIO(windowed))["count"].to_pylist() == [4, 3] * 3


def test_all_of_a_run_is_an_answer(api: Api) -> None:
    every = api.client.metrics("made-1", summarize=1)

    known = api.client.series("made-1")
    assert [(each["metric"], each["node"], each["gpu"], each["rank"]) for each in every] == [
        (each["metric"], each["node"], each["gpu"], each["rank"]) for each in known
    ]
    assert [each["points"][0]["count"] for each in every] == [each["samples"] for each in known]


def test_too_many_points_are_refused_with_what_to_do(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.bench.api.lines.MOST_POINTS", 10)

    with pytest.raises(lockstep.ApiError, match="summarize") as refused:
        api.client.metrics("made-1", "loss")
    assert (refused.value.status, refused.value.error) == (422, "too_many_points")
    monkeypatch.setattr("lockstep.bench.api.lines.MOST_ROWS", 10)
    with pytest.raises(lockstep.ApiError, match="this run has"):
        api.client.metrics("made-1")


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    posted.append(tmp_path, [("m", "", None, 1.0, 1.0)])
    with (tmp_path / POSTED_FILE).open("ab") as file:
        file.write(b'["m", "", null, 2.0, 2')
    posted.append(tmp_path, [("m", "", None, 3.0, 3.0)])

    [(_, _, _, times, values)] = posted.read(tmp_path)

    assert times.tolist() == values.tolist() == [1.0, 3.0]


@given(raw=st.binary(max_size=200))
def test_no_posted_file_breaks_a_reader(
    raw: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("posted")
    (folder / POSTED_FILE).write_bytes(raw)

    for *_, times, values in posted.read(folder):
        assert np.isfinite(times).all()
        assert np.isfinite(values).all()


def test_a_file_that_is_full_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    posted.append(tmp_path, [("m", "", None, 1.0, 1.0)])
    before = (tmp_path / POSTED_FILE).read_bytes()
    monkeypatch.setattr(posted, "MOST_BYTES", len(before) + 3)

    with pytest.raises(Exception, match="nothing of this request was taken"):
        posted.append(tmp_path, [("m", "", None, 2.0, 2.0)])
    assert (tmp_path / POSTED_FILE).read_bytes() == before


def test_a_link_in_an_archive_is_not_written_through(api: Api, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("whole")
    (api.folder / "made-1" / POSTED_FILE).symlink_to(tmp_path / "victim")

    with pytest.raises(lockstep.ApiError, match="nothing can be added"):
        api.client.post_metrics("made-1", [{"metric": "m", "value": 1}])
    assert (tmp_path / "victim").read_text() == "whole"
