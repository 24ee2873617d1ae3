"""Where the rank-seconds of this attempt went; `lockstep ledger` has all attempts of a run."""

from typing import TYPE_CHECKING

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.ledger.starting import PARTS
from lockstep.analyzer.ledger.words import sentence, spoken_part
from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.shapes.windows import COLUMNS

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


def where_time_went(diagnosis: "Diagnosis") -> Block | None:
    """The section with the ledger of the archive; None where nothing is known of its time."""
    windows = diagnosis.run.windows
    if not len(windows) or not set(COLUMNS) <= set(windows):
        return None
    attempt = attempt_of(diagnosis)
    told = ledger([attempt])
    if not told.rank_seconds > 0:
        return None
    rows: list[list[object]] = []
    parts = {part: seconds or 0.0 for part, seconds in told.parts().items()}
    for row in BUCKETS:
        seconds = told.of(row.bucket)
        if not seconds > 0:
            continue
        rows.append([row.title, seconds, seconds / told.rank_seconds, row.source])
        if row.bucket is Bucket.STRAGGLER:
            rows += [
                [f"of it {one.who}, {one.cause}", one.seconds, one.seconds / told.rank_seconds,
                 "verdict.json: culprits"]
                for one in told.stragglers
            ]  # fmt: skip
        if row.bucket is Bucket.STARTING:
            rows += [
                [f"of it {spoken_part(each.part)}", parts[each.part],
                 parts[each.part] / told.rank_seconds, each.source]
                for each in PARTS if parts[each.part]
            ]  # fmt: skip
    columns = {"where": "", "rank-seconds": "seconds", "share": "share", "source": ""}
    what = "span" if attempt.span else "attempt"
    whole = "the span that was read" if attempt.span else "wall time"
    words = f"{sentence(told)}. All buckets sum to {whole} times ranks."
    if attempt.span:
        words += " What came before and after it is not in it."
    return blocks.section(
        "ledger", "Where the time went",
        [blocks.text(words), blocks.table(f"Ledger of this {what}", columns, rows)],
    )  # fmt: skip
