"""Starting in parts: each is what was put into it, and what nobody measured is unknown."""

import dataclasses
from datetime import UTC, datetime

import numpy as np
import pytest

from lockstep.analyzer.ledger.attempt import attempt_of
from lockstep.analyzer.ledger.buckets import Bucket
from lockstep.analyzer.ledger.ledger import ledger
from lockstep.analyzer.ledger.starting import PARTS, PLACE
from lockstep.analyzer.ledger.words import ledger_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import StartPart

LEAD = 20.0
"""Seconds from the launch to the first step of the runs made here."""


def _stamp(when):
    return datetime.fromtimestamp(when, UTC).isoformat()


def _run(synthetic, tell, **more):
    """A run whose launch is LEAD seconds before its first step.

    Args:
        tell: From (launch, rank) to the marks of a rank.
    """
    run = synthetic().run()
    first = float(run.windows["start"].min())
    launch = first - LEAD
    meta = {
        **run.meta, "started": _stamp(launch), "recording": {"lost_steps": 0},
        "ended": _stamp(float(run.windows["end"].max())), "outcome": {"ending": "finished"},
        "starting": {str(info.rank): tell(launch, info.rank) for info in run.ranks},
    }  # fmt: skip
    meta |= {name: value(launch) for name, value in more.items()}
    return dataclasses.replace(run, meta=meta)


def _book(run):
    return ledger([attempt_of(diagnose(run), "a")])


def _late(launch, rank):
    """Rank 1 is 5 s late; all load for 7 s, and what rank 2 compiles of it takes 2 s."""
    begun, ready = launch + 1.0, launch + (8.0 if rank == 1 else 3.0)
    return {
        "program": [[begun, ready]],
        "rendezvous": [[ready, launch + 9.0]],
        "load": [[launch + 9.0, None]],
        "compile": [[launch + 12.0, launch + 14.0]] if rank == 2 else [],
    }


def test_who_waits_for_a_late_rank_waits_in_the_rendezvous(synthetic):
    book = _book(_run(synthetic, _late))
    first = book.starting[:, PLACE[StartPart.RENDEZVOUS]]

    assert first == pytest.approx([6.0, 1.0, 6.0, 6.0], abs=1e-3)
    assert book.starting[:, PLACE[StartPart.PROGRAM]] == pytest.approx(
        [2.0, 7.0, 2.0, 2.0], abs=1e-3
    )
    assert book.starting[:, PLACE[StartPart.LAUNCH]] == pytest.approx([1.0] * 4, abs=1e-3)


def test_what_is_compiled_while_it_loads_is_not_loading(synthetic):
    run = _run(synthetic, _late)
    book = _book(run)
    own = run.windows.groupby("rank")["start"].min().to_numpy() - run.windows["start"].min()

    assert book.starting[:, PLACE[StartPart.COMPILE]] == pytest.approx([0, 0, 2.0, 0])
    assert book.starting[:, PLACE[StartPart.LOAD]] == pytest.approx(
        np.array([11.0, 11.0, 9.0, 11.0]) + own, abs=1e-3
    )
    parts = book.parts()
    assert parts[StartPart.UNKNOWN] == pytest.approx(0.0, abs=1e-6)
    assert parts[StartPart.IMAGE] is None
    assert not any("starting" in each for each in book.missing)


def test_a_rank_that_told_nothing_is_unknown_and_never_the_rest(synthetic):
    book = _book(_run(synthetic, lambda launch, rank: _late(launch, rank) if rank else None))

    silent = book.starting[0]
    # What its warm-up steps took beyond ordinary ones, its steps tell.
    assert silent[PLACE[StartPart.UNKNOWN]] == pytest.approx(LEAD, abs=0.1)
    assert sum(silent) == pytest.approx(
        silent[PLACE[StartPart.UNKNOWN]] + silent[PLACE[StartPart.WARMUP]]
    )
    assert any("are unexplained (not measured: image)" in each or
               "not all ranks reported" in each for each in book.missing)  # fmt: skip


def test_without_marks_no_part_is_told(synthetic):
    book = _book(_run(synthetic, lambda launch, rank: None))

    told = {part for part, seconds in book.parts().items() if seconds is not None}
    assert told == {StartPart.WARMUP, StartPart.UNKNOWN}
    assert any("not measured: launch, image, program, rendezvous, load, compile" in each
               for each in book.missing)  # fmt: skip


def test_pods_tell_of_the_image_and_when_queueing_ended(synthetic):
    """Submitted 100 s before the launch; placed 30 s and running 12 s before it."""
    run = _run(
        synthetic, _late, submitted=lambda launch: _stamp(launch - 100.0),
        pods=lambda launch: {
            f"pod-{node}": {"node": f"node-{node}", "placed": _stamp(launch - 30.0),
                            "ran": _stamp(launch - 12.0)}
            for node in range(4)
        },
    )  # fmt: skip
    book = _book(run)

    assert {info.node for info in run.ranks} == {f"node-{node}" for node in range(4)}
    assert book.of(Bucket.QUEUED) == pytest.approx(70.0 * 4, abs=1e-3)
    assert book.parts()[StartPart.IMAGE] == pytest.approx(18.0 * 4, abs=1e-3)
    assert book.parts()[StartPart.LAUNCH] == pytest.approx(13.0 * 4, abs=1e-3)
    assert book.seconds.sum() == pytest.approx(book.rank_seconds)


def test_who_never_came_to_a_step_waited_in_the_rendezvous_to_the_end(synthetic):
    run = _run(synthetic, lambda launch, rank: {"program": [[launch + 1.0, launch + 3.0]],
                                                "rendezvous": [[launch + 3.0, None]]})  # fmt: skip
    run = dataclasses.replace(run, windows=run.windows.iloc[:0], samples=run.samples.iloc[:0])
    book = _book(run)

    waited = book.parts()[StartPart.RENDEZVOUS]
    assert waited == pytest.approx(book.of(Bucket.STARTING) - 3.0 * 4, abs=1e-2)


def test_the_document_has_the_parts_of_the_run_and_of_each_rank(synthetic):
    book = _book(_run(synthetic, _late))
    (run,) = ledger_json([book])["runs"]
    row = next(each for each in run["buckets"] if each["bucket"] == "starting")

    assert [each["part"] for each in row["parts"]] == [each.part for each in PARTS]
    assert sum(each["seconds"] or 0.0 for each in row["parts"]) == pytest.approx(row["seconds"])
    assert all("parts" not in each for each in run["buckets"] if each is not row)
    assert sum(run["by_rank"][1]["starting"].values()) == pytest.approx(
        run["by_rank"][1]["seconds"]["starting"]
    )


GUESSED = "by torch's optimizer"


def test_of_a_program_whose_first_step_is_guessed_only_that_step_loads(synthetic):
    """Steps are alike but for the third, a warm-up one, that takes 3 s longer."""
    run = _run(synthetic, lambda launch, rank: _late(launch, rank) | {"compile": []})
    windows = run.windows.copy()
    windows["tags"] = np.where(windows["from_step"] < 5, "warmup", windows["tags"])
    later, third = windows["from_step"] > 2, windows["from_step"] == 2
    windows.loc[later, ["start", "end"]] += 3.0
    windows.loc[third, "end"] += 3.0
    windows.loc[third, "wall_seconds"] += 3.0
    windows.loc[third, "own_seconds"] += 3.0
    ended = _stamp(float(windows["end"].max()))
    means = {str(info.rank): GUESSED for info in run.ranks}
    meta = {**run.meta, "means": means, "ended": ended}
    book = _book(dataclasses.replace(run, windows=windows, meta=meta))

    warm = book.starting[:, PLACE[StartPart.WARMUP]]
    assert warm == pytest.approx([3.0] * 4, abs=0.3)
    assert book.starting[:, PLACE[StartPart.LOAD]] == pytest.approx([11.0] * 4, abs=0.5)


@pytest.mark.parametrize("means", ["by the program", GUESSED])
def test_the_start_before_one_in_place_is_unknown_and_no_launch(synthetic, means):
    """All that is told is of processes that began a second after the first step had ended."""
    run = _run(synthetic, lambda launch, rank: _late(launch + LEAD + 5.0, rank))
    meta = {**run.meta, "means": {str(info.rank): means for info in run.ranks}}
    book = _book(dataclasses.replace(run, meta=meta))

    assert book.parts()[StartPart.LAUNCH] is None
    assert book.parts()[StartPart.UNKNOWN] == pytest.approx(4 * LEAD, abs=0.5)
