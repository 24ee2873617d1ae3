"""No column of a page has the name that only a program reads."""

import pandas as pd

from lockstep.dashboard.words.columns import NAMES, measured, worded
from tests.dashboard.fakes import SPAN, Fake

SOURCE = Fake()


def test_every_column_that_a_source_gives_is_a_word() -> None:
    frames = (
        SOURCE.ranks("gpt-1", SPAN), SOURCE.collectives("gpt-1", SPAN),
        SOURCE.operations("gpt-1", 0, SPAN), SOURCE.health().sources,
        SOURCE.node("node-0", SPAN).gpus,
    )  # fmt: skip
    names = [str(name) for frame in frames for name in worded(frame).columns]
    assert [] == [name for name in names if "_" in name.replace("grad_sync", "")]


def test_no_two_columns_become_one() -> None:
    assert len(NAMES) == len(set(NAMES.values()))


def test_lines_keep_their_names() -> None:
    frame = pd.DataFrame(columns=["time (UTC)", "up", "gpu"])
    assert list(frame.columns) == list(worded(frame).columns)


def test_times_and_ratios_are_known_by_their_unit() -> None:
    frame = worded(pd.DataFrame(columns=["rank", "own_seconds", "slowdown", "bytes"]))
    assert ["own time per step (s)", "own time over its stage (×)"] == measured(frame)
