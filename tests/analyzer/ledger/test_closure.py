"""Whatever was recorded: every rank-second is in exactly one bucket, and none is there twice."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.ledger.attempt import Attempt, apart, attempt_of
from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, Bucket
from lockstep.analyzer.ledger.excess import Excess
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.shapes.run import RankInfo, Run, Verdict
from lockstep.analyzer.shapes.windows import COLUMNS
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import StartPart
from lockstep.evaluation.synth.hard_draw import hard
from lockstep.evaluation.synth.whole import labelled

EPOCH = 1_760_000_000.0
CLOSES = 1e-3
"""Of wall times ranks, at most."""
MOMENT = st.floats(-100.0, 1000.0) | st.sampled_from([float("nan")])
SECONDS = st.floats(-1.0, 500.0) | st.sampled_from([float("nan"), float("inf"), 0.0, 1e300])
WORLDS = st.integers(1, 4)
ENDINGS = st.sampled_from([None, "finished", "interrupted", "crash", "hang", "unheard-of"])
TAGS = st.sampled_from(["", "warmup", "checkpoint", "gc,eval"])


@st.composite
def windows(draw, ranks):
    """Rows that may overlap, lie outside the run, come twice, or tell what cannot be."""
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        start, wall, step = draw(MOMENT), draw(SECONDS), draw(st.integers(0, 30))
        steps = draw(st.integers(1, 5))
        row = dict.fromkeys(COLUMNS, 0.0) | {
            "rank": draw(st.integers(0, ranks)), "attempt": draw(st.integers(0, 2)),
            "from_step": step, "to_step": step + steps, "steps": steps,
            "start": EPOCH + start, "end": EPOCH + start + wall, "wall_seconds": wall,
            "own_seconds": draw(SECONDS), "checkpoint_seconds": draw(SECONDS),
            "eval_seconds": draw(SECONDS), "tags": draw(TAGS),
        }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS))


MARK = st.lists(
    st.one_of(
        st.tuples(MOMENT.map(lambda each: EPOCH + each),
                  MOMENT.map(lambda each: EPOCH + each) | st.none()).map(list),
        st.sampled_from([None, 3, [], ["a", 2], {"begin": 1}]),
    ),
    max_size=3,
)  # fmt: skip
STARTS = st.dictionaries(
    st.sampled_from(["0", "1", "2", "x"]),
    st.dictionaries(st.sampled_from([*StartPart, "other"]), MARK, max_size=5)
    | st.sampled_from([None, 3, [1]]),
    max_size=4,
)  # fmt: skip


@st.composite
def attempts(draw, worlds=WORLDS):
    ranks = draw(worlds)
    told = draw(windows(ranks))
    begin = EPOCH + draw(st.floats(-50.0, 300.0))
    launched = begin + draw(st.floats(0.0, 20.0))
    count = draw(st.integers(0, 6))
    cost = np.array(draw(st.lists(st.floats(0.0, 9.0), min_size=count, max_size=count)))
    run = Run(
        "made",
        {"recording": {"lost_steps": draw(st.integers(0, 1))}, "starting": draw(STARTS),
         "means": draw(st.sampled_from([None, {"0": "by torch's optimizer"}, 7]))},
        tuple(RankInfo(rank, f"node-{rank}", None, None, 0, rank, 0, 0) for rank in range(ranks)),
        told, pd.DataFrame({"time": []}), None,
    )  # fmt: skip
    starts = np.sort(EPOCH + np.array(draw(st.lists(MOMENT, min_size=count, max_size=count))))
    return Attempt(
        "made", run, begin, launched, launched + draw(st.floats(0.0, 400.0)), draw(ENDINGS),
        (Excess("rank 0", "node-0", "thermal", frozenset([0]), cost),), starts,
        np.zeros(count, dtype=bool), Verdict("made", "unknown", "", None, None, None, 0.0),
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(data=st.data(), ranks=WORLDS)
def test_buckets_sum_to_wall_times_ranks(data, ranks):
    told = data.draw(st.lists(attempts(st.just(ranks)), min_size=1, max_size=4))
    book = ledger(apart(told))

    assert np.isfinite(book.seconds).all()
    assert (book.seconds >= -1e-6).all()
    assert book.wall_seconds == max(one.end for one in book.attempts) - book.attempts[0].begin
    assert book.rank_seconds == pytest.approx(book.wall_seconds * ranks, abs=1e-4)
    assert book.seconds.sum() == pytest.approx(book.rank_seconds, rel=1e-9, abs=1e-4)
    assert sum(book.of(row.bucket) for row in BUCKETS) == pytest.approx(
        book.rank_seconds, rel=1e-9, abs=1e-4
    )
    assert (book.starting >= -1e-6).all()
    assert book.starting.sum(axis=1) == pytest.approx(
        book.seconds[:, INDEX[Bucket.STARTING]], rel=1e-9, abs=1e-4
    )
    assert sum(one.seconds for one in book.stragglers) == pytest.approx(
        book.of(Bucket.STRAGGLER), abs=1e-6
    )


@settings(max_examples=15, deadline=None)
@given(told=st.lists(attempts(), min_size=1, max_size=4))
def test_worlds_of_any_size_close_as_well(told):
    book = ledger(apart(told))

    assert book.seconds.sum() == pytest.approx(book.rank_seconds, rel=1e-9, abs=1e-4)


def test_attempts_that_overlap_are_refused():
    one = _empty(0.0, 10.0)
    with pytest.raises(ValueError, match="overlap"):
        ledger([one, one])


def test_of_archives_of_one_time_the_longest_counts():
    kept = apart([_empty(0.0, 4.0), _empty(1.0, 9.0), _empty(9.0, 10.0)])

    assert [(one.begin, one.end) for one in kept] == [(1.0, 9.0), (9.0, 10.0)]
    assert [one.instead_of for one in kept] == [("0.0",), ()]
    assert any("0.0 was left out" in each for each in ledger(kept).missing)


def _empty(begin, end):
    run = Run(
        "made", {}, (RankInfo(0, "node-0", None, None, 0, 0, 0, 0),),
        pd.DataFrame(columns=list(COLUMNS)), pd.DataFrame({"time": []}), None,
    )  # fmt: skip
    return Attempt(
        str(begin), run, begin, begin, end, None, (), np.zeros(0), np.zeros(0, dtype=bool),
        Verdict("made", "unknown", "", None, None, None, 0.0),
    )  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(told=attempts())
def test_no_rank_has_more_time_than_the_attempt(told):
    book = ledger([told])

    assert book.seconds.sum(axis=1) == pytest.approx(told.seconds, abs=1e-4)


def test_there_is_one_row_a_bucket():
    assert sorted(row.bucket for row in BUCKETS) == sorted(Bucket)


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("injected", [True, False], ids=["injected", "healthy"])
@pytest.mark.parametrize("seed", range(20))
def test_whatever_runs_a_score_draws_their_ledgers_close(seed, injected):
    """The hard level: all causes, layouts, missing sources, steps or scrapes alone."""
    fleet = hard(seed, injected=injected)
    attempt = attempt_of(diagnose(labelled(fleet).run))
    book = ledger([attempt])

    whole = (attempt.end - attempt.begin) * len(attempt.run.ranks)
    assert whole > 0.0
    assert book.rank_seconds == pytest.approx(whole)
    assert float(book.seconds.sum()) == pytest.approx(whole, rel=CLOSES)
    assert float(book.seconds.min()) >= -1e-6
