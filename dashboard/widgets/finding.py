"""A finding in a few lines, and its acknowledgement and silence through Alertmanager."""

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


def glance(finding: FindingRow, run: RunRow | None, now: float) -> None:
    """Draws the lines.

    Args:
        finding: The finding.
        run: That it is about, where it is known.
        now: Unix seconds of the source's clock.
    """
    action, command = findings.to_do(finding)
    first = f"  \n**Do first** {plain(action)}" if action else ""
    st.markdown(
        f"**Since** {plain(findings.since(finding, now))} · **Why** {plain(findings.why(finding))}"
        f" · **Costs** {plain(findings.cost(finding, run))}{first}"
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


def on_call(finding: FindingRow, settings: Settings, key: str) -> None:
    """Draws who looks after a finding and the two buttons; nothing without an Alertmanager.

    Args:
        finding: The finding.
        settings: Where Alertmanager is.
        key: Unique on the page.
    """
    if not settings.alertmanager:
        return
    silences = _alertmanager(settings.alertmanager)
    labels = labels_of(finding.run, finding.node, finding.rank, finding.gpu, finding.link)
    try:
        mine = [
            silence for silence in silences.in_force() if silence.covers(_alert(finding, labels))
        ]
    except SilenceError as error:
        st.caption(f":material/cloud_off: {plain(str(error))} Who looks after this is unknown.")
        return
    who = reader() if settings.login else ""
    for silence in mine[:SHOWN]:
        _silence_shown(silences, silence, who, key)
    if not (who and finding.open):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if not any(each.acknowledges for each in mine):
            st.button(
                "Acknowledge", key=f"{key}-acknowledge", icon=":material/visibility:",
                on_click=_silenced, args=(silences, labels, ACKNOWLEDGED_FOR, who,
                                          f"{ACKNOWLEDGED} {who} looks after it"),
                help="Shows everybody that you look after it; its alert is quiet for 4 h.",
            )  # fmt: skip
        with st.popover("Silence", icon=":material/notifications_off:", type="tertiary"):
            _form(silences, labels, who, key)
    if failed := st.session_state.pop("silence-failed", ""):
        st.warning(plain(failed), icon=":material/warning:")


def _alert(finding: FindingRow, labels: dict[str, str]) -> dict[str, str]:
    """All labels of its alert, so that silences of others that name more of them are known, too."""
    page = finding.severity == "critical"
    return {
        **labels, "cause": finding.cause, "tier": "page" if page else "record",
        "severity": "critical" if page else "warning",
    }  # fmt: skip


def _silence_shown(silences: Silences, silence: Silence, who: str, key: str) -> None:
    left = duration(max(0.0, silence.until - WALL()))
    what = "Acknowledged" if silence.acknowledges else "Silenced"
    why = "" if silence.acknowledges else f": {silence.comment}"
    icon = "visibility" if silence.acknowledges else "notifications_off"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/{icon}: {plain(f'{what} by {silence.author}, {left} left{why}')}",
                    width="content")  # fmt: skip
        if who:
            st.button("End it", key=f"{key}-end-{silence.id}", type="tertiary",
                      on_click=_ended, args=(silences, silence.id))  # fmt: skip


def _form(silences: Silences, labels: dict[str, str], who: str, key: str) -> None:
    with st.form(f"{key}-silence", border=False):
        length = st.selectbox("For", list(LENGTHS), key=f"{key}-length")
        why = st.text_input("Why", key=f"{key}-why", max_chars=300,
                            placeholder="a ticket, what is done about it")  # fmt: skip
        if st.form_submit_button("Silence its alert"):
            if not why.strip():
                st.caption("Say why: who is on call next reads it.")
                return
            _silenced(silences, labels, LENGTHS[length], who, why.strip())
            st.rerun()


def _silenced(
    silences: Silences, labels: dict[str, str], seconds: float, who: str, why: str
) -> None:  # fmt: skip
    try:
        silences.silence(labels, seconds, who, why, WALL())
    except SilenceError as error:
        st.session_state["silence-failed"] = str(error)


def _ended(silences: Silences, mark: str) -> None:
    try:
        silences.end(mark)
    except SilenceError as error:
        st.session_state["silence-failed"] = str(error)
