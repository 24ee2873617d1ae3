"""A row of numbers, each with what it is; one that is not known says so in a word."""

from collections.abc import Sequence

import streamlit as st

from lockstep.analyzer.report.figures import UNKNOWN
from lockstep.dashboard.widgets.words import plain
from lockstep.dashboard.words.number import Number

NOT_KNOWN = "unknown"


def row(numbers: Sequence[Number], key: str) -> None:
    """Draws them beside each other; on a telephone two in a row.

    Args:
        numbers: At least one.
        key: Unique on the page.
    """
    with st.container(key=f"numbers-{key}"):
        for place, (column, each) in enumerate(zip(st.columns(len(numbers)), numbers, strict=True)):
            unknown = each.value in (UNKNOWN, "")
            name = f"number-{'unknown' if unknown else 'known'}-{key}-{place}"
            with column, st.container(key=name):
                st.metric(
                    plain(each.label), NOT_KNOWN if unknown else plain(each.value),
                    each.delta or None, delta_color="red" if each.bad else "off",
                    delta_arrow="off", help=plain(each.help) or None,
                )  # fmt: skip
