"""A value that cannot be is absent, whoever told it: as on the collector's page, by its range.

The ranges are those of the contract (collector.contract.metrics.ranges); what an expression makes
of a metric has no name, and whoever asks says what it can be.
"""

from collections.abc import Mapping

from lockstep.analyzer.read.prometheus.decoding import Series
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows.ranges import ANY, Range


def range_of(labels: Mapping[str, str]) -> Range:
    """Of a series that has the name of a metric of ours; anything of others."""
    name = labels.get("__name__", "")
    metric = m.SAMPLES.get(name) or m.EVERY.get(name)
    return ANY if metric is None else metric.within


def plausible(series: Series, within: Range | None = None) -> Series:
    """A series without what cannot be; NaN, an absent value, stays.

    Args:
        series: As it was told.
        within: What its values can be; None = by its name.
    """
    low, high, _ = within or range_of(series.labels)
    values = series.values
    outside = (values < low) | (values > high)
    if not outside.any():
        return series
    return Series(series.labels, series.times[~outside], values[~outside])
