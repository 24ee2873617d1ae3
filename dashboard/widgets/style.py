"""What Streamlit's theme cannot say: room on top, letters that can be read, and telephones.

Selectors are Streamlit's `data-testid`, which its own tests rely on; `tests/dashboard/browser`
looks whether they still do what they are here for.
"""

import streamlit as st

STYLE = """<style>
/* 96 and 160 pixels of nothing, and nothing in the header but the button of a closed sidebar. */
[data-testid="stMainBlockContainer"] { padding: 1rem 2.5rem 3rem; max-width: 100rem; }
[data-testid="stAppScrollToBottomContainer"] > [data-testid="stMainBlockContainer"] {
    padding-bottom: 3rem;
}
[data-testid="stHeader"] { height: 2.75rem; min-height: 2.75rem; pointer-events: none; }
[data-testid="stHeader"] button { pointer-events: auto; }
[data-testid="stApp"]:has([data-testid="stExpandSidebarButton"])
    [data-testid="stMainBlockContainer"] { padding-top: 2.75rem; }
[data-testid="stSidebarHeader"] { height: 2.25rem; margin-bottom: 0; }
[data-testid="stSidebarUserContent"] { padding-bottom: 1.5rem; }
[data-testid="stMainBlockContainer"] h1 { padding: 0; }

/* Streamlit's small print is 60 % of its ink: 3.9:1 where 4.5:1 is the least for its size. */
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * {
    color: inherit; opacity: 1;
}
[data-testid="stCaptionContainer"] { opacity: 0.8; }

/* A number of which nothing is known is a word, and no larger than one. */
[class*="st-key-number-unknown"] [data-testid="stMetricValue"] {
    font-size: 1.25rem; line-height: 2.4; opacity: 0.8;
}
/* What a number is held against may take two lines; cut off it says nothing. */
[data-testid="stMetricDelta"], [data-testid="stMetricDelta"] * {
    white-space: normal; overflow: visible; text-overflow: clip;
}

@media (max-width: 640px) {
    [data-testid="stMainBlockContainer"] { padding: 2.75rem 1rem 2rem; }
    [data-testid="stMainBlockContainer"] h1 { font-size: 1.5rem; }
    [data-testid="stAlertContainer"] { padding: 0.6rem 0.75rem; }
    [data-testid="stAlertContainer"] p { font-size: 0.9rem; line-height: 1.4; }
    /* Numbers two in a row: one in a row is three screens of them. */
    [class*="st-key-numbers"] [data-testid="stHorizontalBlock"] { gap: 0.5rem; }
    [class*="st-key-numbers"] [data-testid="stColumn"] {
        flex: 1 1 calc(50% - 0.5rem); min-width: calc(50% - 0.5rem); width: calc(50% - 0.5rem);
    }
    [class*="st-key-numbers"] [data-testid="stMetricValue"] { font-size: 1.5rem; }
    [class*="st-key-ways"] a, [class*="st-key-ways"] button { min-height: 2.5rem; }
}
</style>"""


def draw() -> None:
    """Once a page."""
    st.html(STYLE)
