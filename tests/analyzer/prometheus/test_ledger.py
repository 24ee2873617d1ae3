"""The ledger of a run that only a Prometheus recorded, beside that of its steps."""

import pytest

from analyzer.ledger.attempt import attempt_of
from analyzer.ledger.buckets import BUCKETS, Bucket
from analyzer.ledger.ledger import ledger
from analyzer.pipeline import diagnose
from lockstep.ledgers import of_prometheus


def test_it_closes_and_is_that_of_the_steps(fake, stored, synthetic, fault):
    run = synthetic(steps=400, faults=[fault("thermal", 1, 1.5, 100)]).run()
    fake.series = stored(run.samples, run.name, len(run.ranks))
    exact = ledger([attempt_of(diagnose(run))])

    (told,) = of_prometheus(fake.url, run.name, None, None)

    assert told.seconds.sum() == pytest.approx(told.rank_seconds)
    for row in BUCKETS:
        if row.bucket not in (Bucket.STARTING, Bucket.ENDING, Bucket.UNKNOWN):
            assert told.share(row.bucket) == pytest.approx(exact.share(row.bucket), abs=0.06)
    assert {one.who for one in told.stragglers} <= {"rank 1"}
    assert any("has no end" in each for each in told.missing)
