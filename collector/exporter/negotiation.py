"""Which format and which packing a scraper asks for (RFC 9110, section 12.5)."""

import re

from collector.exporter.page import Form

_QUALITY = re.compile(r"q=(0(\.[0-9]{0,3})?|1(\.0{0,3})?)")
_TYPES = {"text/plain": Form.TEXT, "application/openmetrics-text": Form.OPENMETRICS}


def form_of(accept: str) -> Form:
    """The format of the page for an Accept header; text unless OpenMetrics is asked for by name."""
    best: dict[Form, float] = {}
    for name, quality in _choices(accept):
        if name in _TYPES:
            form = _TYPES[name]
            best[form] = max(best.get(form, 0.0), quality)
    openmetrics = best.get(Form.OPENMETRICS, 0.0)
    return Form.OPENMETRICS if openmetrics > best.get(Form.TEXT, 0.0) else Form.TEXT


def wants_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be packed with gzip."""
    return any(name == "gzip" and quality > 0 for name, quality in _choices(accept_encoding))


def _choices(header: str) -> list[tuple[str, float]]:
    """(name, quality) of each entry; what has no readable quality has 1."""
    found = []
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = next((m[1] for one in parameters if (m := _QUALITY.fullmatch(one))), "1")
        found.append((name, float(quality)))
    return found
