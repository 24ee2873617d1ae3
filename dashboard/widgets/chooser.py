"""The question that a page asks when its address does not say whom it is about."""

import pandas as pd

from dashboard.address import Place, link, utc
from dashboard.protocol import Source
from dashboard.shapes import Severity
from dashboard.trouble import Kind, TroubleError
from dashboard.widgets import shown
from dashboard.widgets.words import capital
from dashboard.words.age import duration


def chosen(needs: str, page: str, source: Source, place: Place) -> Place | None:
    """The place with what the page needs; None = the reader was asked.

    The only run or node that there is is taken without a question.

    Raises:
        TroubleError: There is none to choose.
    """
    if not needs or getattr(place, needs):
        return place
    known = source.nodes() if needs == "node" else tuple(row.run for row in source.runs())
    if not known:
        raise TroubleError(
            Kind.EMPTY,
            f"{capital(source.name)} knows no {needs}.",
            "Start one, then look again: `lockstep run gpt`"
            if needs == "run" else "See Data health for what answers.",
        )  # fmt: skip
    if len(known) == 1:
        return place.but(**{needs: known[0]})
    shown.sentence(f"Which {needs}? There are {len(known):,}; open one.", Severity.NOTE)
    frame = _nodes(known) if needs == "node" else _runs(source)
    frame.insert(0, "open", [link(page, place, **{needs: name}) for name in frame[needs]])
    shown.table(frame, f"choose-{needs}", f"Every {needs}, with a link.", links=("open",))
    return None


def _nodes(names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame({"node": list(names)})


def _runs(source: Source) -> pd.DataFrame:
    rows = source.runs()
    return pd.DataFrame({
        "run": [row.run for row in rows],
        "state": [row.state for row in rows],
        "start": [utc(row.span.start) for row in rows],
        "for": [duration(row.span.seconds) for row in rows],
        "workload": [row.workload for row in rows],
        "ranks": [row.ranks for row in rows],
        "verdict": [row.status or "not analyzed" for row in rows],
    })  # fmt: skip
