"""Hardware that deviates from its peers, as a section of the report; none, where none does."""

from datetime import datetime

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.shapes.run import Verdict


def deviations(verdict: Verdict) -> list[Block]:
    """The section with `Verdict.anomalies`, or nothing."""
    if not verdict.anomalies:
        return []
    columns = {"node": "", "gpu": "", "since": "time", "distance": "score", "costs time": "",
               "what": ""}  # fmt: skip
    rows = [
        [each["node"], each["gpu"], datetime.fromisoformat(each["since"]).timestamp(),
         each["deviation"], "yes" if each["costs_time"] else "not yet", each["text"]]
        for each in verdict.anomalies
    ]  # fmt: skip
    words = (
        "Compared with other GPUs of the same kind at the same time. A distance of 3 is three times"
        " what healthy parts differ by; errors that no healthy part has have no distance."
    )
    table = blocks.table("Hardware that deviates", columns, rows)
    return [blocks.section("deviations", "Hardware that deviates", [blocks.text(words), table])]
