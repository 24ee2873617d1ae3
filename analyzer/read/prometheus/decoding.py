"""Bytes of an answer to arrays: the samples of a series never become objects of Python."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from lockstep.analyzer.read.prometheus.errors import SourceError
from lockstep.collector.contract import bounded_json

VALUES = re.compile(rb'"values"\s*:\s*\[([^{}]*)\](?=\s*[,}])')
"""The samples of a series. Quotes in a JSON string have a backslash before them, so these, and the
braces around, are the answer's own and no label's."""
MARKS = b'" \t\r\n'
COLUMNS = ("time", "value")


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer.

    Attributes:
        labels: Its labels, the name as `__name__`.
        times: (N,) unix milliseconds, rising.
        values: (N,) NaN and infinities are values.
    """

    labels: Mapping[str, str]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


def decode(body: bytes, url: str) -> list[Series]:
    """The series of a range of samples (resultType `matrix`).

    The numbers are read from the bytes by Arrow, all series' at once; the rest is JSON.

    Raises:
        SourceError: This is no whole answer of a Prometheus.
    """
    slices: list[bytes] = []

    def cut(found: re.Match[bytes]) -> bytes:
        slices.append(found[1])
        return b'"values":%d' % (len(slices) - 1)

    try:
        tree = bounded_json.loads(VALUES.sub(cut, body), limit=None)
        if tree["status"] != "success" or tree["data"]["resultType"] != "matrix":
            raise SourceError(_foreign(url))
        # Native histograms have no values.
        found = [one for one in tree["data"]["result"] if "values" in one]
        numbers = _numbers([slices[one["values"]] for one in found])
        series = [
            Series(dict(one["metric"]), times, values)
            for one, (times, values) in zip(found, numbers, strict=True)
        ]
        texts = (text for one in series for text in one.labels.values())
        if not all(isinstance(text, str) for text in texts):
            raise SourceError(_foreign(url))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise SourceError(_foreign(url)) from error
    return series


def without_nan(series: Series) -> Series:
    """A series without its NaN."""
    there = ~np.isnan(series.values)
    return Series(series.labels, series.times[there], series.values[there])


def _numbers(slices: Sequence[bytes]) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Of each series, `[t,"v"],[t,"v"]` as times and values."""
    lines = [_lines(text) for text in slices]
    counts = [text.count(b"\n") + 1 if text else 0 for text in lines]
    ends = np.cumsum(counts)[:-1]
    if not sum(counts):
        return [(np.empty(0, dtype=np.int64), np.empty(0)) for _ in counts]
    table = csv.read_csv(
        pa.BufferReader(b"\n".join(text for text in lines if text)),
        read_options=csv.ReadOptions(column_names=COLUMNS, use_threads=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(COLUMNS, pa.float64()), null_values=[]
        ),
    )
    seconds, values = (table[name].to_numpy() for name in COLUMNS)
    if len(seconds) != sum(counts) or not np.isfinite(seconds).all():
        raise ValueError("samples are pairs of a time and a value")
    times = np.rint(seconds * 1000).astype(np.int64)
    rising = np.diff(times) > 0
    rising[ends[(ends > 0) & (ends < len(times))] - 1] = True
    if not rising.all():
        raise ValueError("the samples of a series are in order")
    return list(zip(np.split(times, ends), np.split(values, ends), strict=True))


def _lines(text: bytes) -> bytes:
    """The samples of a series as lines `t,v`."""
    bare = text.translate(None, MARKS)
    if bare and not (bare.startswith(b"[") and bare.endswith(b"]")):
        raise ValueError("samples are pairs of a time and a value")
    return bare[1:-1].replace(b"],[", b"\n")


def _foreign(url: str) -> str:
    return f"{url}: an answer is no whole JSON of Prometheus' HTTP API; is that its address?"
