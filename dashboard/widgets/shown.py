"""A sentence, a picture with its table twin, a table: each with its words and its download.

What pages draw with; each of them is a file beside this one.
"""

import hashlib

import streamlit as st

from dashboard.palette import SEVERITY
from dashboard.shapes import Severity
from dashboard.widgets.links import to as link_to
from dashboard.widgets.pictures import picture
from dashboard.widgets.tables import download, table
from dashboard.widgets.words import plain

__all__ = ["ICONS", "download", "link_to", "picture", "plain", "sentence", "table"]

GREY = """<style>
[class*="st-key-unknown-"] [data-testid="stAlertContainer"] {
    background-color: rgba(128, 132, 140, 0.14); color: inherit;
}
[class*="st-key-unknown-"] [data-testid="stAlertContainer"] * { color: inherit; }
</style>"""
"""Streamlit has no box for what is not known: neither news (blue) nor trouble, and never well."""
ICONS = {severity: shade.icon for severity, shade in SEVERITY.items()}


def sentence(text: str, severity: Severity) -> None:
    """The answer of a page, on top of it; plain text."""
    boxes = {
        Severity.OK: st.success,
        Severity.NOTE: st.info,
        Severity.WARNING: st.warning,
        Severity.CRITICAL: st.error,
    }
    if severity is not Severity.UNKNOWN:
        boxes[severity](plain(text), icon=ICONS[severity])
        return
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    with st.container(key=f"unknown-{mark}"):
        st.html(GREY)
        st.info(plain(text), icon=ICONS[severity])
