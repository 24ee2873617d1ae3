"""What an operator may set of the dashboards."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
PREFIX = "lockstep-"
"""Begins the uid of every dashboard, which is the name of its file too."""
SCHEMA_VERSION = 39
"""Of the classic model, Grafana 10.3; newer ones migrate it by themselves when they load it."""
REFRESH = "30s"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where links go, and whose clock is shown.

    Attributes:
        streamlit_url: Where `lockstep dashboard` answers, without a slash at the end.
        timezone: `browser`, `utc` or an IANA name.
    """

    streamlit_url: str = "http://127.0.0.1:8501"
    timezone: str = "browser"
