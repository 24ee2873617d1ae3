"""A choice that stands in the address: Back undoes it, and a link carries it."""

from collections.abc import Mapping

import streamlit as st

from lockstep.dashboard.widgets.words import plain


def choice(label: str, word: str, choices: Mapping[str, str], now: str) -> None:
    """Draws buttons, one of them pressed; pressing another one changes the address.

    Args:
        label: Over them.
        word: Of the address (address.Place).
        choices: Value in the address -> what the reader sees; the first one is the default and
            takes the word out of the address.
        now: Value that is shown.
    """
    key = f"choice-{word}"
    default = next(iter(choices))
    st.session_state[key] = now if now in choices else default

    def changed() -> None:
        chosen = st.session_state[key]
        if chosen and chosen != default:
            st.query_params[word] = chosen
        elif word in st.query_params:
            del st.query_params[word]

    st.segmented_control(
        label, list(choices), key=key, format_func=lambda value: plain(choices[value]),
        on_change=changed, required=True,
    )  # fmt: skip
