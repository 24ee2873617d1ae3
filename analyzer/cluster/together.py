"""Which runs were slow at the same time."""

from collections.abc import Sequence

from analyzer.cluster.shape import RunView, Span

SECONDS_AT_LEAST = 1.0
"""Two runs that were slow together for less were slow one after the other."""


def slow_together(views: Sequence[RunView]) -> tuple[Span, tuple[RunView, ...]] | None:
    """The largest set of runs that were slow at one time, and when; None if no two were.

    Of sets of the same size the one that was together longest counts. A set of open intervals
    that have a time in common has the begin of one of them in common, so that only begins are
    looked at.
    """
    best: tuple[Span, tuple[RunView, ...]] | None = None
    for begin in sorted({span.begin for view in views for span in view.slow}):
        here = [
            (view, span)
            for view in views
            for span in view.slow
            if span.begin <= begin < span.end
        ]  # fmt: skip
        runs = {view.run: view for view, _ in here}
        end = min((_longest(here, run) for run in runs), default=begin)
        if len(runs) < 2 or end - begin < SECONDS_AT_LEAST:
            continue
        found = (Span(begin, end), tuple(runs.values()))
        if best is None or _size(found) > _size(best):
            best = found
    return best


def _longest(here: Sequence[tuple[RunView, Span]], run: str) -> float:
    return max(span.end for view, span in here if view.run == run)


def _size(found: tuple[Span, tuple[RunView, ...]]) -> tuple[int, float]:
    return len(found[1]), found[0].end - found[0].begin
