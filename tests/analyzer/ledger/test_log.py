"""The ledger of a run of which only a log was kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.analyzer.ledger.buckets import BUCKETS, Bucket
from lockstep.analyzer.ledger.ledger import Ledger
from lockstep.analyzer.ledger.reliability import of_node
from lockstep.analyzer.read.iteration_log import lines_of, run_of
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose.ledgers import of_log
from lockstep.workloads.loop.progress import Iteration, iteration_line

EPOCH = datetime(2026, 8, 1, 12, 0, 0, 300000, tzinfo=UTC)


def line(number: int, seconds: float, at: float) -> str:
    told = Iteration(
        number=number, of=500, batch=8, consumed=8 * number, seconds=seconds, tokens=1.0,
        samples=1.0, flops=1e12, peak=None, rate=1e-4, loss=2.0, norm=1.0, skipped=0, nans=0,
        formula="megatron",
    )  # fmt: skip
    return iteration_line(told, EPOCH + timedelta(seconds=at))


def killed_and_resumed() -> list[str]:
    """100 iterations of 0.64 s, 30 s without any, and 120 from iteration 80 on."""
    first = [line(each, 0.64, 0.64 * each) for each in range(1, 101)]
    again = [line(80 + each, 0.64, 94.0 + 0.64 * each) for each in range(1, 121)]
    return ["Traceback of something", *first, "torchrun starts it again", *again]


def closes(told: Ledger) -> bool:
    return told.seconds.sum() == pytest.approx(told.rank_seconds, abs=1e-6)


def test_a_run_that_was_killed_and_resumed(tmp_path: Path) -> None:
    log = tmp_path / "rank.log"
    log.write_text("\n".join(killed_and_resumed()))

    (told,) = of_log(log, 4)

    assert closes(told)
    assert told.of(Bucket.USEFUL) / 4 == pytest.approx(200 * 0.64, abs=1.0)
    assert told.of(Bucket.REPLAYED) / 4 == pytest.approx(20 * 0.64, abs=1.0)
    assert told.of(Bucket.UNKNOWN) / 4 == pytest.approx(30.0, abs=1.5)
    known = (Bucket.USEFUL, Bucket.REPLAYED, Bucket.UNKNOWN)
    assert sum(told.of(row.bucket) for row in BUCKETS if row.bucket not in known) == 0.0
    assert told.failures == 1
    assert any("is a log alone" in each for each in told.missing)
    assert of_node([told]).exposure_seconds == 0.0


@settings(deadline=None, max_examples=20)
@given(st.lists(
    st.tuples(st.integers(1, 10**15 - 1), st.floats(0.0, 1e8), st.integers(-10**6, 10**6)),
    min_size=1, max_size=8,
))  # fmt: skip
def test_whatever_lines_say_time_goes_on(told: list[tuple[int, float, int]]) -> None:
    lines = list(lines_of(line(*each) for each in told))
    found = run_of(lines, "r", 2)

    assert len(lines) == len(told)
    assert (found.windows["end"] >= found.windows["start"]).all()
    assert (found.windows["steps"] > 0).all()


def test_a_log_without_iterations_is_bad_input(tmp_path: Path) -> None:
    from lockstep.terminal.output import CommandError

    log = tmp_path / "rank.log"
    impossible = " [2026-99-01 12:00:00] iteration 1/ 2 | elapsed time per iteration (ms): 1.0 |"
    for text in ("", "hello\n", impossible):
        log.write_text(text)
        with pytest.raises(CommandError, match="no iteration line") as caught:
            of_log(log, 2)
        assert caught.value.code == ExitCode.BAD_INPUT
    log.write_text("\n".join(killed_and_resumed()))
    with pytest.raises(CommandError, match="too many for 100000 ranks"):
        of_log(log, 100_000)
    with pytest.raises(CommandError, match="cannot be read"):
        of_log(tmp_path / "none.log", 2)
