"""Words of PromQL: strings, alternatives, selectors, durations."""

import re
from collections.abc import Iterable

from lockstep.analyzer.shapes.labels import Target


def quoted(text: str) -> str:
    """A string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(texts: Iterable[str]) -> str:
    """A quoted regular expression that matches these texts and no others."""
    return quoted("|".join(re.escape(text) for text in texts))


def series(name: str, words: str = "", **equal: str) -> str:
    """Series by name and labels: `series("up", job="a")`; `words` are matchers as they are."""
    parts = [f"{label}={quoted(value)}" for label, value in equal.items()]
    return f"{name}{{{','.join([*([words] if words else []), *parts])}}}"


def of_targets(targets: Iterable[Target]) -> str:
    """Matchers of the pages of some targets."""
    jobs, instances = zip(*sorted(set(targets)), strict=True)
    return f"job=~{one_of(sorted(set(jobs)))},instance=~{one_of(sorted(set(instances)))}"


def lasting(seconds: float) -> str:
    """A duration: `[15000ms]` without its brackets."""
    return f"{max(1, round(seconds * 1000))}ms"


def window(step: float, scrape: float) -> str:
    """For rate(): four scrapes or the step; `$__rate_interval` of Grafana, at our step."""
    return lasting(max(step, 4 * scrape))
