"""Which of the ranks that are told of at one place lives: a gone one is told of for ten minutes."""

from collections.abc import Iterable, Mapping

from lockstep.analyzer.read.prometheus.questions import up_by_page
from lockstep.analyzer.shapes.labels import Target, number, page_label, target_of
from lockstep.dashboard.sources.prometheus.asking import Asking, Row


def living_last(asking: Asking, rows: Iterable[Row], at: float, pages: str = "") -> list[Row]:
    """Rows of `lockstep_rank_info` so that of each place the last counts: who lives.

    A run that was started again stands on the nodes of the one before, beside whom it is told of.

    Args:
        asking: The Prometheus.
        rows: With job, instance, run and rank.
        at: Unix seconds.
        pages: Matcher of the pages; empty = all.
    """
    up = {_who(labels): value for labels, value in asking.instant(up_by_page(pages), at)}

    def order(row: Row) -> tuple[float, int, str]:
        who = _who(row[0])
        return up.get(who, 0.5), number(row[0], "attempt") or 0, str(who)  # not told: neither

    return sorted(rows, key=order)


def _who(labels: Mapping[str, str]) -> tuple[Target, str, int | None]:
    return target_of(labels), page_label(labels, "run"), number(labels, "rank")
