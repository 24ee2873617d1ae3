"""The sidebar: every page, the source and its age, which run, which range, how often to look."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import streamlit as st

from lockstep.dashboard.address import Location, link
from lockstep.dashboard.context import Settings
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import Answer
from lockstep.dashboard.trouble import TroubleError
from lockstep.dashboard.widgets import choices as ranges
from lockstep.dashboard.widgets import links
from lockstep.dashboard.widgets.markup import plain, short
from lockstep.dashboard.words.said import age, is_stale

RANGES = {"15 min": "now-15m", "1 h": "now-1h", "6 h": "now-6h", "24 h": "now-24h", "whole": ""}
CUSTOM = "custom"
REFRESHES = (0, 5, 15, 60)
"""Seconds; 0 = off."""
LEAST_REFRESH, MOST_REFRESH = 2, 3600
MOST_RUNS = 200
"""Of the newest runs in the picker; the page of runs has all."""
CLOCK = "lockstep-clock"
"""In the session: the source's clock when it was last asked, and ours then."""
AGE_SECONDS = 5.0
"""Between two looks at the age of a live source."""


def navigation(groups: dict[str, list[tuple[str, str, str]]], location: Location) -> None:
    """Every page as a link that keeps the run, the range and the refresh.

    Args:
        groups: Title of a group -> key, title and icon of its pages.
        location: Where the reader looks.
    """
    kept = Location(
        run=location.run, node=location.node, since=location.since, until=location.until,
        refresh=location.refresh,
    )  # fmt: skip
    for group, pages in groups.items():
        with st.container(gap="xxsmall"):
            st.caption(group)
            for key, title, icon in pages:
                links.link_to(title, key, kept, icon=icon, wide=True)


def controls(page: str, source: Source, location: Location, settings: Settings) -> None:
    """What the reader can change on every page; each of it goes into the address."""
    _age(source)
    location = _run(source, location)
    _range(source, location)
    if source.live:
        _refresh(location, settings)
    st.caption("Link to this view")
    st.code(_address(page, location), language=None, wrap_lines=True)


@st.fragment(run_every=AGE_SECONDS)
def _living_age(source: Source) -> None:
    _badge(source)


def _age(source: Source) -> None:
    if source.live:
        _living_age(source)
    else:
        _badge(source)


def _badge(source: Source) -> None:
    try:
        answer = source.answer()
    except TroubleError as trouble:
        st.badge("no answer", icon=":material/cloud_off:", color="orange")
        st.caption(plain(short(trouble.sentence, 200)))
        return
    text, colour = badge(_now(answer))
    st.badge(text, icon=":material/database:", color=colour)  # type: ignore[arg-type]
    st.text(short(answer.name, 200))


def _now(answer: Answer) -> Answer:
    """An answer that was kept for a while, with the clock as it is now."""
    clock, seen = st.session_state.get(CLOCK, (None, 0.0))
    if clock != answer.now:
        clock, seen = st.session_state[CLOCK] = (answer.now, time.monotonic())
    return replace(answer, now=answer.now + time.monotonic() - seen)


def badge(answer: Answer) -> tuple[str, str]:
    """How old a source is, in a word or two, and the colour of Streamlit for it."""
    if not answer.live:
        return "recorded", "gray"
    if answer.at is None:
        return "live, no data yet", "orange"
    if is_stale(answer):
        return f"stale, {age(answer)} old", "orange"
    return f"live, {age(answer)} old", "green"


def _run(source: Source, location: Location) -> Location:
    """Draws the picker; the place with the only run that there is, which pages show unasked."""
    try:
        known = [row.run for row in source.runs()[:MOST_RUNS]]
    except TroubleError:
        return location  # the page says it
    if len(known) == 1 and not location.run:
        location = location.but(run=known[0])
    if location.run and location.run not in known:
        known.append(location.run)
    choices = known if len(known) == 1 and location.run else ["", *known]
    _select("Run", "run", choices, location.run, lambda run: short(run, 80) or "not chosen")
    return location


def _range(source: Source, location: Location) -> None:
    named = {since: label for label, since in RANGES.items()}
    custom = bool(location.until) or location.since not in named
    now = CUSTOM if custom else named[location.since]
    st.session_state["range"] = now
    st.selectbox(
        "Range", [*RANGES, CUSTOM], key="range", on_change=_changed_range,
        help="UTC. For a recorded run the range counts back from its end.",
    )  # fmt: skip
    if custom or st.session_state.get("range-open"):
        _custom(source, location)


def _changed_range() -> None:
    chosen = st.session_state["range"]
    st.session_state["range-open"] = chosen == CUSTOM
    if chosen != CUSTOM:
        _say("until", "")
        _say("from", RANGES[chosen])


def _custom(source: Source, location: Location) -> None:
    now = _ends(source, location)
    # Another address begins with its own range, whatever was written here before.
    key = f"{location.run} {location.since} {location.until}"
    with st.form("custom-range", border=False):
        start = st.datetime_input("From (UTC)", value=now[0], key=f"custom-from {key}")
        end = st.datetime_input("To (UTC)", value=now[1], key=f"custom-to {key}")
        if st.form_submit_button("Show this range") and start is not None and end is not None:
            _say("from", _milliseconds(start))
            _say("to", _milliseconds(end))
            st.rerun()


def _ends(source: Source, location: Location) -> tuple[datetime | None, datetime | None]:
    """The range that is shown, in whole minutes outward; nothing where the address has none."""
    try:
        shown = ranges.span(source, location)
    except TroubleError:
        return None, None  # the page says it
    start, end = (
        datetime.fromtimestamp(60 * minute, UTC).replace(tzinfo=None)
        for minute in (shown.start // 60, -(-shown.end // 60))
    )
    return start, end


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.replace(tzinfo=UTC).timestamp() * 1000))


def _refresh(location: Location, settings: Settings) -> None:
    seconds = refresh_seconds(location, settings)
    choices = sorted({*REFRESHES, seconds})
    _select(
        "Refresh", "refresh", [str(choice) for choice in choices], str(seconds),
        lambda text: "off" if text == "0" else f"every {text} s",
    )  # fmt: skip


def refresh_seconds(location: Location, settings: Settings) -> int:
    """Seconds between two looks of a live page; 0 = only when asked."""
    if location.refresh is None:
        return round(settings.refresh_seconds)
    return 0 if location.refresh == 0 else min(max(location.refresh, LEAST_REFRESH), MOST_REFRESH)


def _select(
    label: str, name: str, choices: list[str], now: str, shown: Callable[[str], str]
) -> None:
    """A select box whose choice is a word of the address; Back and deep links set it."""
    st.session_state[f"side-{name}"] = now
    st.selectbox(
        label, choices, key=f"side-{name}", format_func=shown,
        on_change=lambda: _say(name, st.session_state[f"side-{name}"]),
    )  # fmt: skip


def _say(name: str, value: str) -> None:
    if value:
        st.query_params[name] = value
    elif name in st.query_params:
        del st.query_params[name]


def _address(page: str, location: Location) -> str:
    base = (st.context.url or "").partition("?")[0].rstrip("/")
    there = link(page, location, view=location.view)
    return (base.removesuffix(f"/{page}") if base else "") + there
