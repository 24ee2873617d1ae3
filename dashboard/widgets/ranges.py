"""Which range a place is about."""

from lockstep.dashboard import address
from lockstep.dashboard.address import Place
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Span

LIVE_SECONDS = 3600.0
"""Of a live source, so much is shown when neither a run nor a range is asked for."""


def span(source: Source, place: Place) -> Span:
    """The range of the address; without one that of the run, or of all there is.

    Raises:
        TroubleError: The run of the place is not known, or its range is none.
    """
    extent = source.run(place.run).span if place.run else source.extent()
    answer = source.answer(run=place.run)
    if source.live and not place.run and not place.since:
        extent = Span(max(extent.start, extent.end - LIVE_SECONDS), extent.end)
    # A recorded run has no now: `the last hour` is the last one of it.
    return address.span(place, extent, answer.now if answer.live else extent.end)
