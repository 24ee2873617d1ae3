"""Parts of queries: selectors, durations, targets."""

from collections.abc import Iterable, Mapping, Sequence

from analyzer.readers.prometheus.promql import one_of, quoted

MOST_SERIES = 64
"""Raw series that a query over time reads: what it costs does not grow with the fleet."""
Target = tuple[str, str]
"""(job, instance) that is scraped."""


def series(name: str, words: str = "", **equal: str) -> str:
    """A selector: `series("up", job="a")`; `words` are matchers that are written already."""
    parts = [f"{label}={quoted(value)}" for label, value in equal.items()]
    return f"{name}{{{','.join([*([words] if words else []), *parts])}}}"


def of_targets(targets: Iterable[Target]) -> str:
    """Matchers of some targets' pages."""
    jobs, instances = zip(*sorted(set(targets)), strict=True)
    return f"job=~{one_of(sorted(set(jobs)))},instance=~{one_of(sorted(set(instances)))}"


def lasting(seconds: float) -> str:
    """A duration: `[15000ms]` without its brackets."""
    return f"{max(1, round(seconds * 1000))}ms"


def window(step: float, scrape: float) -> str:
    """For rate(): four scrapes or the step; `$__rate_interval` of Grafana, at our step."""
    return lasting(max(step, 4 * scrape))


def label(labels: Mapping[str, str], name: str) -> str:
    """As the page had it: where the target has a label of that name, the page's is exported_."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def whole(text: str) -> int | None:
    """A label that is a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def spread(found: Sequence[int], most: int) -> list[int]:
    """At most so many of them, evenly."""
    if len(found) <= most:
        return list(found)
    return [found[round(place * (len(found) - 1) / (most - 1))] for place in range(most)]
