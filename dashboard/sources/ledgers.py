"""Where the time of runs went, as pages show it: of archives, by lockstep.analyzer.ledger."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lockstep.analyzer.ledger.attempt import attempt_of, chains
from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import Ledger, ledger, team_of
from lockstep.analyzer.ledger.words import sentence, spoken_part
from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.dashboard.shapes import LedgerRow

TITLES = {row.bucket: row.title for row in BUCKETS}


def of_archives(folders: Sequence[Path]) -> tuple[LedgerRow, ...]:
    """One row a run, the newest first; archives of one run are its attempts.

    Raises:
        LoadError: None of them can be read; of several the others are told, and which cannot.
    """
    attempts, torn = [], []
    for folder in folders:
        try:
            found = diagnose(load_archive(folder))
        except LoadError as error:
            if len(folders) == 1:
                raise
            torn.append(f"{folder.name} cannot be read: {error}")
            continue
        attempts.append(attempt_of(found, folder.resolve().name))
    rows = [_row(ledger(job)) for job in reversed(chains(attempts))]
    if rows:
        rows[0] = replace(rows[0], missing=(*rows[0].missing, *torn))
    return tuple(rows)


def _row(ledger: Ledger) -> LedgerRow:
    return LedgerRow(
        run=ledger.run,
        team=team_of(ledger),
        sentence=f"{sentence(ledger)}.".replace("..", "."),
        buckets={TITLES[row.bucket]: ledger.of(row.bucket) for row in BUCKETS
                 if row.bucket is not Bucket.STRAGGLER},
        stragglers={f"{one.who} ({one.cause})": one.seconds for one in ledger.stragglers},
        missing=ledger.missing,
        provenance=ledger.provenance,
        attempts=ledger.launches,
        known_from="archive",
        starting={spoken_part(part): seconds for part, seconds in ledger.parts().items()},
    )  # fmt: skip
