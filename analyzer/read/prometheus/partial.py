"""What an answer says about itself: that it is not all there is."""

import re

from lockstep.analyzer.read.prometheus.servers import partial
from lockstep.collector.contract import bounded_json

TAIL = 1 << 16
"""Bytes: warnings stand behind the data (web/api/v1/api.go, Thanos' and Mimir's as well)."""
WARNINGS = re.compile(rb'(?<!\\)"warnings"\s*:\s*(\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\])')
HARMLESS = "PromQL"
"""Prometheus 2.48 and later begins remarks about the query, not about the data, with this."""
LONGEST = 200


def warning(body: bytes) -> str:
    """The first warning of an answer that some data is missing; empty = none.

    Thanos and Mimir answer 200 with warnings when a store does not answer, as Prometheus does for
    a remote read.
    """
    if partial(body):
        return "isPartial: some of its storage nodes do not answer"
    found = WARNINGS.search(body[-TAIL:])
    if found is None:
        return ""
    try:
        texts = [text for text in bounded_json.loads(found[1]) if isinstance(text, str)]
    except ValueError:
        return ""
    words = [" ".join(text.split()) for text in texts if not text.startswith(HARMLESS)]
    shown = "".join(letter if letter.isprintable() else "?" for letter in "; ".join(words))
    return shown[:LONGEST]
