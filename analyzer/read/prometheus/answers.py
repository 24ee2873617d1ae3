"""Answers of Prometheus' HTTP API: their series as arrays, their warnings, their refusals.

The samples of a series never become objects of Python. A value that cannot be is absent, by the
range of its metric (collector.contract.metrics.ranges); whoever asks for an expression, which has
no name, says what it can be.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from lockstep.analyzer.read.prometheus.access import (
    PASSWORD,
    TOKEN,
    USER,
    SourceError,
    TooMuchError,
)
from lockstep.analyzer.read.prometheus.servers import partial
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.ranges import ANY, Range

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

    def cut(match: re.Match[bytes]) -> bytes:
        slices.append(match[1])
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


TAIL = 1 << 16
"""Bytes: warnings stand behind the data (web/api/v1/api.go, Thanos' and Mimir's as well)."""
WARNINGS = re.compile(rb'(?<!\\)"warnings"\s*:\s*(\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])')
HARMLESS = "PromQL"
"""Prometheus 2.48 and later begins remarks about the query, not about the data, with this."""
LONGEST = 200


def warning(body: bytes) -> str:
    """The first warning of an answer that some data is missing; empty = none.

    Thanos and Mimir answer 200 with warnings when a store does not answer, as Prometheus does for
    a remote read.
    """
    if partial(body):
        return "isPartial: some of its storage nodes do not answer"
    found = WARNINGS.search(body[-TAIL:])
    if found is None:
        return ""
    try:
        texts = [text for text in bounded_json.loads(found[1]) if isinstance(text, str)]
    except ValueError:
        return ""
    words = [" ".join(text.split()) for text in texts if not text.startswith(HARMLESS)]
    shown = "".join(letter if letter.isprintable() else "?" for letter in "; ".join(words))
    return shown[:LONGEST]


LONGEST_REASON = 200
TOO_MUCH = (408, 413, 422, 504)
"""422 is Prometheus' word for an execution that failed, as for too many samples; so the others'."""


def shape(url: str) -> str:
    """The sentence for an answer of another shape than Prometheus'."""
    return f"{url} does not answer as a Prometheus does; is that its address?"


def refusal(url: str, status: int, headers: Mapping[str, str], start: bytes) -> SourceError:
    """The error for a status.

    Args:
        url: Of the Prometheus.
        status: Of HTTP.
        headers: Of the answer.
        start: First bytes of its body.
    """
    if 300 <= status < 400:
        place = headers.get("Location", "elsewhere").partition("?")[0].rpartition("@")[2]
        return SourceError(f"{url} answers {status}, a redirect to {place}; give that address")
    if status in (401, 407):
        return SourceError(
            f"{url} answers {status}: it wants credentials; set {TOKEN}, or {USER} and {PASSWORD}"
        )
    if status == 403:
        return SourceError(f"{url} answers 403: these credentials may not read there")
    if status in (404, 405):
        return SourceError(f"{url} answers {status}: no Prometheus is there; is that its address?")
    reason = _reason(start)
    said = f"{url} answers {status}" + (f": {reason}" if reason else "")
    if status in TOO_MUCH:
        return TooMuchError(f"{said}; a later --since may do")
    if status in (429, 502, 503):
        return SourceError(f"{said}; it is overloaded or starting, try again later")
    return SourceError(f"{said}; it must be Prometheus' HTTP API, version 1")


def _reason(start: bytes) -> str:
    """Prometheus' own words, or nothing where it was not Prometheus that answered."""
    try:
        told = bounded_json.loads(start)
        text = told["error"]
    except (ValueError, TypeError, KeyError):
        return ""
    words = " ".join(text.split()) if isinstance(text, str) else ""
    shown = "".join(letter if letter.isprintable() else "?" for letter in words)
    return shown[:LONGEST_REASON].rstrip(".")


def range_of(labels: Mapping[str, str]) -> Range:
    """Of a series that has the name of a metric of ours; anything of others."""
    name = labels.get("__name__", "")
    metric = m.SAMPLES.get(name) or m.EVERY.get(name)
    return ANY if metric is None else metric.within


def plausible(series: Series, within: Range | None = None) -> Series:
    """A series without what cannot be; NaN, an absent value, stays.

    Args:
        series: As it was reported.
        within: What its values can be; None = by its name.
    """
    low, high, _ = within or range_of(series.labels)
    values = series.values
    outside = (values < low) | (values > high)
    if not outside.any():
        return series
    return Series(series.labels, series.times[~outside], values[~outside])
