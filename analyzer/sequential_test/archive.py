"""Arrays from a run archive (DESIGN 3.3): ranks.parquet says who, samples.parquet what was told.

Rows are read in batches and go straight to their place: no more than the arrays is held.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from analyzer.known import own_each
from analyzer.run import LoadError
from analyzer.sequential_test.arrays import TelemetryArrays
from analyzer.sequential_test.metrics import MonitoredMetric
from analyzer.sequential_test.placing import Placing, Ranks
from analyzer.slowness.peer_groups import MAJORITY
from collector.contract import archive

FloatArray = NDArray[np.float32]

BATCH = 1 << 18
"""Rows at once: their arrays stay in a processor's cache."""
COLUMNS = ["time", "node", "gpu", "rank", "metric", "labels", "value"]
WORDS = ["node", "metric", "labels"]
READERS = 2
MOST_CHECKS = 100_000
"""Two weeks at 15 s."""


def read(path: Path, metrics: Sequence[MonitoredMetric], period: float) -> TelemetryArrays:
    """The fleet of a run archive; ranks of one stage and tensor-parallel part are peers.

    Args:
        path: Folder of the archive.
        period: Seconds between two checks; of several scrapes in one period the last counts.

    Raises:
        LoadError: A file is missing, damaged or of another kind.
    """
    ranks = _ranks(path / archive.RANKS_FILE)
    files = _parts(path / archive.SAMPLES_FILE)
    first, last = _span(files)
    checks = int((last - first) // period) + 1
    if not 0 < checks <= MOST_CHECKS:
        raise LoadError(
            f"{path} spans {last - first:.0f} s; that must be 1 to {MOST_CHECKS} checks of"
            f" {period:g} s"
        )
    names = list(
        dict.fromkeys(name for one in metrics for name in (one.name, one.per, one.known) if name)
    )
    told = np.full((checks, len(names), len(ranks.node)), np.nan)
    placing = Placing(ranks, names, first, period, told)

    def take(file: Path) -> None:
        try:
            with pq.ParquetFile(file, read_dictionary=WORDS) as opened:
                for batch in opened.iter_batches(BATCH, columns=COLUMNS, use_threads=False):
                    placing.take(batch)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error

    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(take, files))
    return TelemetryArrays(
        times=np.asarray(first + period * np.arange(1, checks + 1), dtype=np.float64),
        metrics=tuple(metrics),
        values=_values(told, names, metrics),
        node=ranks.node,
        uuid=ranks.uuid,
        gpu=ranks.gpu,
        stratum=ranks.stratum,
    )


def _values(
    told: NDArray[np.float64], names: Sequence[str], metrics: Sequence[MonitoredMetric]
) -> FloatArray:
    """Gauges as they were; of counters the increase per increase of the other one."""
    found = np.full((len(told), len(metrics), told.shape[2]), np.nan, dtype=np.float32)
    for row, metric in enumerate(metrics):
        own = told[:, names.index(metric.name)]
        if metric.per is None:
            found[:, row] = own
            continue
        per, known = (
            told[:, names.index(name)] for name in (metric.per, metric.known or metric.per)
        )
        found[1:, row] = own_each(own, per, known)
    return found


def _ranks(file: Path) -> Ranks:
    try:
        table = pq.read_table(file, columns=["rank", "node", "gpu", "uuid", "pp", "tp"])
    except (pa.ArrowException, OSError) as error:
        raise _damaged(file, error) from error
    frame = table.to_pandas().sort_values("rank")
    return Ranks(
        rank=frame["rank"].to_numpy(dtype=np.int64),
        node=frame["node"].to_numpy(dtype=np.str_),
        gpu=frame["gpu"].fillna(-1).to_numpy(dtype=np.int64),
        # Without devices a rank stands for its own.
        uuid=frame["uuid"].fillna("rank " + frame["rank"].astype(str)).to_numpy(dtype=np.str_),
        stratum=_strata(frame["pp"].tolist(), frame["tp"].tolist()),
    )


def _strata(stages: Sequence[int], parts: Sequence[int]) -> NDArray[np.str_]:
    """As slowness.strata: where a tensor-parallel part has too few ranks, the whole stage."""
    places = list(zip(stages, parts, strict=True))
    ranks = Counter(places)
    small = {stage for (stage, _), count in ranks.items() if count < MAJORITY}
    return np.array(
        [
            f"stage {stage}" if stage in small else f"stage {stage}, tensor part {part}"
            for stage, part in places
        ],
        dtype=np.str_,
    )


def _parts(path: Path) -> list[Path]:
    """The part files, or the one file; as analyzer.readers.archive."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path] * path.exists()
    if not files:
        raise LoadError(f"{path} is not there; a fleet is read from what was scraped")
    return files


def _span(files: Sequence[Path]) -> tuple[float, float]:
    """First and last time, from the files' own statistics."""
    edges: list[tuple[float, float]] = []
    for file in files:
        try:
            with pq.ParquetFile(file) as opened:
                meta, place = opened.metadata, opened.schema_arrow.get_field_index("time")
                groups = [meta.row_group(group) for group in range(meta.num_row_groups)]
                known = [group.column(place).statistics for group in groups if place >= 0]
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error
        if place < 0:
            raise LoadError(f"{file} has no column time; it is no file of samples")
        edges += [(float(one.min), float(one.max)) for one in known if one and one.has_min_max]
    if not edges or not np.isfinite(edges).all():
        raise LoadError(f"{files[0].parent} tells no times; its files need rows and statistics")
    return min(low for low, _ in edges), max(high for _, high in edges)


def _damaged(file: Path, error: Exception) -> LoadError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return LoadError(f"{file} cannot be read as a table of an archive ({reason})")
