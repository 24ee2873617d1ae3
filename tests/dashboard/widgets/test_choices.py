"""Which range is shown: a run that is over has no now, whatever else goes on in its folder."""

from dataclasses import replace

from lockstep.dashboard.address import Location
from lockstep.dashboard.shapes import Answer, Span
from lockstep.dashboard.widgets import choices
from tests.dashboard.fakes import SPAN, Fake


class Mixed(Fake):
    """A folder in which another run goes on, an hour after the run that is looked at."""

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        told = super().answer(span, run)
        return replace(told, live=not run, now=SPAN.end if run else SPAN.end + 3600)


def test_the_last_seconds_of_a_recorded_run_beside_a_live_one_are_its_own() -> None:
    location = Location(run="gpt-1", since="now-15s")
    assert Span(SPAN.end - 15, SPAN.end) == choices.span(Mixed(live=True), location)


def test_without_a_run_the_last_seconds_are_those_of_now() -> None:
    location = Location(since="now-15s", until="now")
    assert Span(SPAN.end + 3585, SPAN.end + 3600) == choices.span(Mixed(live=True), location)


def test_of_a_live_source_the_last_hour_is_shown_unasked() -> None:
    assert SPAN == choices.span(Fake(live=True), Location())
