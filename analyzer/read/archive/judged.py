"""What run.json of an archive that `lockstep watch` wrote says of its record.

Where a finding opened by a verdict, that was about the windows of a span of samples, and so is the
verdict about the archive. More may be recorded: samples from before, and those steps that the
ranks' rings still held, which may all lie after the onset.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from lockstep.analyzer.read.archive.files import number, part
from lockstep.analyzer.shapes.run import Span

SPAN_KEY = "judged"
"""`start` and `end`, unix seconds of the samples that are judged; absent = all."""
ANSWERED_KEY = "answered"
"""`told` of `expected` ranks were known, of a run that was read in part; absent = read whole."""
MISSING_KEY = "missing"
"""What the record lacks, in words."""


def lacks(meta: Mapping[str, Any]) -> list[str]:
    """What the record lacks, in words."""
    told = meta.get(MISSING_KEY)
    return [each for each in told if isinstance(each, str)] if isinstance(told, list) else []


def judged_samples(meta: Mapping[str, Any], samples: pd.DataFrame) -> pd.DataFrame | None:
    """The samples that are judged: as from Prometheus, after the start and up to the end.

    None where run.json names no span, none that is one, or one without samples.
    """
    span = _span(meta)
    if span is None or samples.empty:
        return None
    # Prometheus has milliseconds (readers.prometheus.ranges).
    at = (samples["time"] * 1000).round()
    inside = (at > math.floor(span.start * 1000)) & (at <= math.ceil(span.end * 1000))
    return samples[inside].reset_index(drop=True) if inside.any() else None


def _span(meta: Mapping[str, Any]) -> Span | None:
    told = part(meta, SPAN_KEY)
    start, end = number(told.get("start")), number(told.get("end"))
    return None if start is None or end is None or not start < end else Span(start, end)
