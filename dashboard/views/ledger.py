"""Ledger: where did the time of the runs go, and what was lost to whom?"""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from lockstep.dashboard.context import Context
from lockstep.dashboard.figures.ledger import ledger
from lockstep.dashboard.shapes import LedgerRow
from lockstep.dashboard.widgets.shown import picture, plain, sentence, table
from lockstep.dashboard.words.ledger import headline


def show(context: Context) -> None:
    """Draws the page."""
    run = context.place.run
    with st.spinner("Where the time went is worked out from all that is recorded."):
        rows = context.source.ledgers(context.span, run)
    said = headline(rows, run)
    sentence(said.text, said.severity)
    if said.command:
        st.code(said.command, language=None)
    if not rows:
        return
    picture(ledger(rows), "ledger")
    st.subheader("Each run", anchor=False)
    table(_runs(rows), "ledger-runs", "Each run: what was useful, and the largest loss.",
          columns={"useful": st.column_config.NumberColumn(format="percent"),
                   "rank-hours": st.column_config.NumberColumn(format="%.3g")})  # fmt: skip
    began = _starts(rows)
    if not began.empty:
        st.subheader("What starting was, in rank-seconds", anchor=False)
        st.caption("Empty: nobody measured this part. Its time, if any, is in the last column.")
        table(began, "ledger-starting", "What starting was, in rank-seconds.",
              columns={name: st.column_config.NumberColumn(format="%.3g")
                       for name in began.columns if name != "run"})  # fmt: skip
    _missing(rows)


def _starts(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    """A column a part, of the runs of which it is told."""
    return pd.DataFrame([{"run": row.run, **row.starting} for row in rows if row.starting])


def _runs(rows: Sequence[LedgerRow]) -> pd.DataFrame:
    found = [
        (row.run, row.team, row.attempts, row.rank_seconds / 3600,
         row.useful / row.rank_seconds if row.rank_seconds > 0 else None, row.sentence,
         row.known_from, ", ".join(row.provenance))
        for row in rows
    ]  # fmt: skip
    columns = ["run", "team", "attempts", "rank-hours", "useful", "in words", "known from",
               "not real"]  # fmt: skip
    return pd.DataFrame(found, columns=columns)


def _missing(rows: Sequence[LedgerRow]) -> None:
    told = dict.fromkeys(f"{each}." for row in rows for each in row.missing)
    if told:
        with st.expander(f"What is not known ({len(told)})"):
            for each in told:
                st.caption(plain(each))
