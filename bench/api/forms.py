"""Series as what is sent: JSON, one Parquet table, or a zip of one JSON a metric. Pure."""

import io
import json
import math
import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.bench.api.lines import Line, Summary, Window, about

JSON = "application/json"
PARQUET = "application/vnd.apache.parquet"
ZIP = "application/zip"
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The same series are the same bytes."""
_IDENTITY = {
    "metric": pa.string(), "node": pa.string(), "gpu": pa.int32(), "rank": pa.int32(),
    "labels": pa.string(),
}  # fmt: skip
_POINT = {"time": pa.float64(), "value": pa.float64(), "step": pa.int64()}
_WINDOW = {
    "time": pa.float64(), "value": pa.float64(), "from": pa.float64(), "to": pa.float64(),
    "count": pa.int64(), "min": pa.float64(), "max": pa.float64(), "last": pa.float64(),
}  # fmt: skip


def dumped(tree: Any) -> bytes:
    """JSON that any client reads: plain ASCII, no NaN."""
    return json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()


def series(lines: Sequence[Line], summaries: Sequence[Summary] | None) -> list[dict[str, Any]]:
    """Each series with its points; a value that is no number is null."""
    if summaries is None:
        return [{**about(each), "points": list(_points(each))} for each in lines]
    return [
        {**about(each.line), "points": [_window(window) for window in each.windows]}
        for each in summaries
    ]


def parquet(lines: Sequence[Line], summaries: Sequence[Summary] | None) -> bytes:
    """A row a sample, or a row a window."""
    columns = _IDENTITY | (_POINT if summaries is None else _WINDOW)
    rows = [
        {**{name: each[name] for name in _IDENTITY}, **point}
        for each in series(lines, summaries) for point in each["points"]
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def zipped(run: str, lines: Sequence[Line], summaries: Sequence[Summary] | None) -> bytes:
    """`<metric>.json` for each metric."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as file:
        taken: set[str] = set()
        for metric, some in groupby(series(lines, summaries), key=lambda each: each["metric"]):
            name = _file_name(metric, taken)
            file.writestr(
                zipfile.ZipInfo(name, ZIP_TIME), dumped({"run": run, "series": list(some)}),
                zipfile.ZIP_DEFLATED,
            )  # fmt: skip
    return sink.getvalue()


def number(value: float) -> float | None:
    """For JSON, which has neither NaN nor infinities."""
    return float(value) if math.isfinite(value) else None


def _points(line: Line) -> Iterator[dict[str, Any]]:
    steps = [None] * len(line.times) if line.steps is None else line.steps.tolist()
    for time, value, step in zip(line.times.tolist(), line.values.tolist(), steps, strict=True):
        yield {"time": time, "value": number(value), "step": step}


def _window(window: Window) -> dict[str, Any]:
    return {
        "time": window.end, "value": number(window.mean), "from": window.begin, "to": window.end,
        "count": window.count, "min": number(window.least), "max": number(window.most),
        "last": number(window.last),
    }  # fmt: skip


def _file_name(metric: str, taken: set[str]) -> str:
    """That no unpacking leads elsewhere by, and no other metric has."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", metric).lstrip(".") or "metric"
    name, number_of = f"{plain}.json", 2
    while name.lower() in taken:
        name, number_of = f"{plain}-{number_of}.json", number_of + 1
    taken.add(name.lower())
    return name
