"""Numbers of one quantity say over which range each is taken."""

from lockstep.dashboard.shapes import Span
from lockstep.dashboard.words import verdict as words
from tests.dashboard.words.verdicts import BROKEN, CULPRIT, HEALTHY, SLOW, verdict

ONSET = 1763464000.0
"""2025-11-18T11:06:40Z."""
LATE = verdict(culprits=[CULPRIT | {"since": "2025-11-18T11:06:40Z", "from_step": 100}])
AROUND = Span(ONSET - 100.0, ONSET + 100.0)


def test_the_range_of_the_verdict_stands_beside_that_of_the_charts() -> None:
    text = words.measured(LATE, AROUND)
    assert "Measured from 2025-11-18 11:05:00 UTC to 2025-11-18 11:08:20 UTC" in text
    assert (
        "The verdict counts rank 2 (node-1, GPU 0) from step 100 (2025-11-18 11:06:40 UTC) on:"
        " 1.50×; medians that include the time before are lower." in text
    )


def test_a_range_from_the_onset_on_has_nothing_to_explain() -> None:
    assert "verdict" not in words.measured(LATE, Span(ONSET - 0.5, ONSET + 100.0))


def test_without_a_culprit_or_its_moment_only_the_range_is_told() -> None:
    for told in (None, HEALTHY, BROKEN, verdict(culprits=[CULPRIT | {"since": "soon"}]), SLOW):
        assert words.onset(told, AROUND) is None
        assert words.measured(told, AROUND).startswith("Measured from ")
