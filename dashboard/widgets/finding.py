"""Acknowledge and silence a finding: through Alertmanager, by who is logged in."""

from functools import lru_cache

import streamlit as st

from lockstep.analyzer.findings.alertmanager.silences import (
    ACKNOWLEDGED,
    Silence,
    SilenceError,
    Silences,
    labels_of,
)
from lockstep.analyzer.read.prometheus.access import access
from lockstep.collector.clock import SystemClock
from lockstep.dashboard.context import Settings
from lockstep.dashboard.shapes import FindingRow, RunRow
from lockstep.dashboard.widgets.markup import plain
from lockstep.dashboard.words import findings
from lockstep.dashboard.words.said import duration

# Since when, how much, why and what first, under the sentence of a finding: one line each.


def glance(one: FindingRow, run: RunRow | None, now: float) -> None:
    """Draws the lines.

    Args:
        one: The finding.
        run: That it is about, where it is known.
        now: Unix seconds of the source's clock.
    """
    action, command = findings.to_do(one)
    first = f"  \n**Do first** {plain(action)}" if action else ""
    st.markdown(
        f"**Since** {plain(findings.since(one, now))} · **Why** {plain(findings.why(one))}"
        f" · **Costs** {plain(findings.cost(one, run))}{first}"
    )
    if command:
        st.code(command, language="bash", wrap_lines=True)


WALL = SystemClock().wall
LENGTHS = {"1 h": 3600.0, "4 h": 14400.0, "1 day": 86400.0, "3 days": 259200.0}
ACKNOWLEDGED_FOR = 4 * 3600.0
"""A night's watch; if nobody mended it by then, whoever is on call next is told again."""
SHOWN = 5


def reader() -> str:
    """Who is logged in, as the login service names them; empty = nobody is."""
    if not st.user.get("is_logged_in", False):
        return ""
    return str(st.user.get("email") or st.user.get("name") or st.user.get("sub") or "")


@lru_cache(maxsize=4)
def _alertmanager(url: str) -> Silences:
    return Silences(access(url, service="alertmanager"))


def on_call(one: FindingRow, settings: Settings, key: str) -> None:
    """Draws who looks after a finding and the two buttons; nothing without an Alertmanager.

    Args:
        one: The finding.
        settings: Where Alertmanager is.
        key: Unique on the page.
    """
    if not settings.alertmanager:
        return
    told = _alertmanager(settings.alertmanager)
    labels = labels_of(one.run, one.node, one.rank, one.gpu, one.link)
    try:
        mine = [each for each in told.in_force() if each.covers(_alert(one, labels))]
    except SilenceError as error:
        st.caption(f":material/cloud_off: {plain(str(error))} Who looks after this is not known.")
        return
    who = reader() if settings.login else ""
    for each in mine[:SHOWN]:
        _silence_shown(told, each, who, key)
    if not (who and one.open):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if not any(each.acknowledges for each in mine):
            st.button(
                "Acknowledge", key=f"{key}-acknowledge", icon=":material/visibility:",
                on_click=_silenced, args=(told, labels, ACKNOWLEDGED_FOR, who,
                                          f"{ACKNOWLEDGED} {who} looks after it"),
                help="Tells everybody that you look after it; its alert is quiet for 4 h.",
            )  # fmt: skip
        with st.popover("Silence", icon=":material/notifications_off:", type="tertiary"):
            _form(told, labels, who, key)
    if failed := st.session_state.pop("silence-failed", ""):
        st.warning(plain(failed), icon=":material/warning:")


def _alert(one: FindingRow, labels: dict[str, str]) -> dict[str, str]:
    """All labels of its alert, so that silences of others that name more of them are known, too."""
    page = one.severity == "critical"
    return {
        **labels, "cause": one.cause, "tier": "page" if page else "record",
        "severity": "critical" if page else "warning",
    }  # fmt: skip


def _silence_shown(told: Silences, each: Silence, who: str, key: str) -> None:
    left = duration(max(0.0, each.until - WALL()))
    what = "Acknowledged" if each.acknowledges else "Silenced"
    why = "" if each.acknowledges else f": {each.comment}"
    icon = "visibility" if each.acknowledges else "notifications_off"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/{icon}: {plain(f'{what} by {each.author}, {left} left{why}')}",
                    width="content")  # fmt: skip
        if who:
            st.button("End it", key=f"{key}-end-{each.id}", type="tertiary",
                      on_click=_ended, args=(told, each.id))  # fmt: skip


def _form(told: Silences, labels: dict[str, str], who: str, key: str) -> None:
    with st.form(f"{key}-silence", border=False):
        length = st.selectbox("For", list(LENGTHS), key=f"{key}-length")
        why = st.text_input("Why", key=f"{key}-why", max_chars=300,
                            placeholder="a ticket, what is done about it")  # fmt: skip
        if st.form_submit_button("Silence its alert"):
            if not why.strip():
                st.caption("Say why: who is on call next reads it.")
                return
            _silenced(told, labels, LENGTHS[length], who, why.strip())
            st.rerun()


def _silenced(
    told: Silences, labels: dict[str, str], seconds: float, who: str, why: str
) -> None:  # fmt: skip
    try:
        told.silence(labels, seconds, who, why, WALL())
    except SilenceError as error:
        st.session_state["silence-failed"] = str(error)


def _ended(told: Silences, mark: str) -> None:
    try:
        told.end(mark)
    except SilenceError as error:
        st.session_state["silence-failed"] = str(error)
