"""Labels of a stored series: those of the page, and those of the scrape target."""

import re
from collections.abc import Mapping
from functools import lru_cache

from lockstep.collector.contract.metrics import SAMPLES, label_text

UP = "up"
Target = tuple[str, str]
"""(job, instance) that is scraped."""
_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def parsed(text: str) -> dict[str, str]:
    """The `labels` of contract.archive.SAMPLES by name; values stay escaped."""
    return dict(_PAIR.findall(text))


@lru_cache(maxsize=1 << 14)
def series_parts(series: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The metric of `metric{labels}`, and its labels as pairs of name and escaped value."""
    metric, _, text = series.partition("{")
    return metric, tuple(_PAIR.findall(text))


def name_of(labels: Mapping[str, str]) -> str | None:
    """The metric of the contract, or `up`; None = neither."""
    name = labels.get("__name__", "")
    return name if name in SAMPLES or name == UP else None


def target_of(labels: Mapping[str, str]) -> Target:
    """Whose page a series is on."""
    return labels.get("job", ""), labels.get("instance", "")


def page_label(labels: Mapping[str, str], label: str) -> str:
    """A label as the page had it, empty = not there.

    Where the target has a label of that name, Prometheus calls the page's `exported_<label>`.
    """
    return labels.get(f"exported_{label}", labels.get(label, ""))


def number(labels: Mapping[str, str], label: str) -> int | None:
    """A label that is a number, or None."""
    text = page_label(labels, label)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def text_of(labels: Mapping[str, str], name: str) -> str:
    """The `labels` of contract.archive.SAMPLES; Prometheus forgets those that are empty."""
    if name == UP:
        return ""
    return label_text({label: page_label(labels, label) for label in SAMPLES[name].labels})
