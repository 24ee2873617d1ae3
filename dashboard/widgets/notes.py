"""Tags and notes of a run: read by everybody, written by who is logged in or on this machine."""

from pathlib import Path

import streamlit as st

from lockstep.collector.clock import SystemClock
from lockstep.dashboard.address import utc
from lockstep.dashboard.context import Settings
from lockstep.dashboard.sources import notes
from lockstep.dashboard.widgets.finding import reader
from lockstep.dashboard.widgets.markup import plain

WALL = SystemClock().wall
HERE = "somebody on this machine"
FAILED = "notes-failed"


def run_notes(folder: Path | None, settings: Settings) -> None:
    """Draws them; a run without a folder has nowhere to keep any.

    Args:
        folder: Of the run's archive, or of the newest archive of its findings.
        settings: Who may write.
    """
    if folder is None:
        return
    known = notes.read(folder)
    who = reader() if settings.login else HERE if settings.local else ""
    if known.tags:
        with st.container(horizontal=True):
            for tag in known.tags:
                st.badge(plain(tag), icon=":material/sell:", color="gray")
    if not (who or known.notes):
        return
    label = f"Notes ({len(known.notes)})" if known.notes else "Notes and tags"
    with st.expander(label, icon=":material/edit_note:", key="notes-open"):
        for index, each in enumerate(known.notes):
            _note(folder, each, index, may=bool(who))
        if who:
            _forms(folder, known, who)
        if failed := st.session_state.pop(FAILED, ""):
            st.warning(plain(failed), icon=":material/warning:")


def _note(folder: Path, note: notes.Note, index: int, *, may: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(plain(f"{utc(note.at)}, {note.by}"), width="content")
        if may:
            st.button("Take away", key=f"note-{index}-away", type="tertiary",
                      on_click=_safely, args=(notes.withdrawn, folder, note))  # fmt: skip
    st.text(note.text)


def _forms(folder: Path, known: notes.Notes, who: str) -> None:
    with st.form("note", clear_on_submit=True, border=False):
        text = st.text_area("Note", max_chars=notes.LONGEST_NOTE, key="note-text", height=80)
        if st.form_submit_button("Keep the note") and text.strip():
            _safely(notes.noted, folder, notes.Note(WALL(), who, text.strip()))
            st.rerun()
    with st.form("tags", border=False):
        words = st.text_input(
            "Tags, with spaces between", value=" ".join(known.tags), max_chars=400,
            help=plain("Letters, digits and . : / _ -, at most 40 of them; Runs finds them."),
        )  # fmt: skip
        if st.form_submit_button("Keep the tags"):
            _safely(notes.tagged, folder, words.replace(",", " ").split())
            st.rerun()


def _safely(change: object, folder: Path, what: object) -> None:
    try:
        change(folder, what)  # type: ignore[operator]
    except notes.UnwritableError as error:
        st.session_state[FAILED] = str(error)
