"""The ledger of a run that only a Prometheus recorded, beside that of its steps."""

import numpy as np
import pytest

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import by_team, ledger, team_of
from lockstep.analyzer.read.prometheus.kubernetes import TEAM
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.diagnose.ledgers import of_prometheus


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


def _pod(run, number, moment, **labels):
    words = {"__name__": "kube_pod_labels", "job": "kube-state-metrics", "instance": "k:8080",
             "namespace": "lockstep-runs", "pod": f"{run}-worker-{number}"}  # fmt: skip
    told = {"label_lockstep_example_run": run, **labels}
    return ({**words, **told}, np.array([round(moment * 1000)]), np.ones(1))


@pytest.mark.parametrize(
    ("teams", "whose"),
    [(("vision", "vision"), "vision"), ((), "unknown"), (("vision", "speech"), "unknown"),
     (("vision", ""), "vision")],
)  # fmt: skip
def test_pods_say_whose_the_run_is(fake, stored, synthetic, teams, whose):
    run = synthetic(steps=60).run()
    moment = run.samples["time"].max()
    pods = [_pod(run.name, number, moment, **({TEAM: team} if team else {}))
            for number, team in enumerate(teams)]  # fmt: skip
    fake.series = [*pods, _pod("other", 0, moment, **{TEAM: "other"}),
                   *stored(run.samples, run.name, len(run.ranks))]  # fmt: skip

    (told,) = of_prometheus(fake.url, run.name, None, None)

    assert team_of(told) == whose
    assert set(by_team([told])) == {whose}
