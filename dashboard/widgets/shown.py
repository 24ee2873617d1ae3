"""A sentence, a picture with its table twin, a table: each with its words and its download.

What pages draw with; each of them is a file beside this one.
"""

import streamlit as st

from dashboard.palette import SEVERITY
from dashboard.shapes import Severity
from dashboard.widgets.links import to as link_to
from dashboard.widgets.pictures import picture
from dashboard.widgets.tables import download, table
from dashboard.widgets.words import plain

__all__ = ["ICONS", "download", "link_to", "picture", "plain", "sentence", "table"]

ICONS = {severity: shade.icon for severity, shade in SEVERITY.items()}


def sentence(text: str, severity: Severity) -> None:
    """The answer of a page, on top of it; plain text."""
    boxes = {
        Severity.OK: st.success,
        Severity.NOTE: st.info,
        Severity.WARNING: st.warning,
        Severity.CRITICAL: st.error,
        Severity.UNKNOWN: st.info,
    }
    boxes[severity](plain(text), icon=ICONS[severity])
