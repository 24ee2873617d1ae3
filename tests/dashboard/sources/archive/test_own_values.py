"""What a program logs of itself, on the axis of the run's charts: from archives and Prometheus."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.collector.contract import metrics as m
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Lines
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.sources.prometheus.source import PrometheusSource
from tests.dashboard.archives import Made, write
from tests.dashboard.stored import open_metrics, served

MADE = Made(slow=2, steps=240)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive whose four ranks log a reward (their rank at each scrape) and rank 0 a norm."""
    folder = write(tmp_path_factory.mktemp("own") / MADE.name, MADE)
    path = folder / "samples.parquet"
    before = pq.read_table(path)
    ups = before.filter(pa.compute.equal(before["metric"], m.RANK_UP.name)).to_pandas()
    rows = [ups.assign(metric=m.TRAIN_VALUE.name, labels='name="reward"',
                       value=ups["rank"].astype(float))]  # fmt: skip
    first = ups[ups["rank"] == 0]
    rows.append(first.assign(metric=m.TRAIN_VALUE.name, labels='name="grad_norm"', value=7.5))
    more = [pa.Table.from_pandas(one, schema=before.schema, preserve_index=False) for one in rows]
    shutil.rmtree(path)  # a folder of parts; one file says the same
    pq.write_table(pa.concat_tables([before, *more]).sort_by("time"), path)
    return folder


def own(source: Source) -> dict[str, Lines]:
    charts = source.run_lines(MADE.name, source.run(MADE.name).span)
    return {chart.key: chart for chart in charts if chart.key.startswith("own:")}


def test_an_archive_has_a_chart_a_name_with_the_steps(archive: Path) -> None:
    found = own(ArchiveSource(archive))
    assert ["own:grad_norm", "own:reward"] == list(found)
    reward = found["own:reward"]
    assert ("lowest", "highest") == reward.band
    middle = reward.values["median"]
    assert 1.5 == np.nanmedian(middle)
    assert reward.steps is not None
    assert np.isfinite(reward.steps).any()
    assert ["rank 0"] == list(found["own:grad_norm"].values)


def test_a_run_that_logs_nothing_has_no_such_chart(straggling: Path) -> None:
    source = ArchiveSource(straggling)
    assert {} == own(source)


@pytest.mark.prometheus
def test_prometheus_tells_the_same(archive: Path, tmp_path: Path) -> None:
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        pytest.skip("prometheus is not installed")
    with served(tmp_path, open_metrics([archive])) as url:
        found = own(PrometheusSource(url, environment={}))
    assert ["own:grad_norm", "own:reward"] == list(found)
    reward = found["own:reward"]
    low, middle, high = (np.nanmedian(reward.values[name])
                         for name in ("lowest", "mean over ranks", "highest"))  # fmt: skip
    assert (0.0, 1.5, 3.0) == (low, middle, high)
