"""Charts of the hardware end where the run does."""

import numpy as np
import pytest

from lockstep.analyzer.read.archive.series import Series
from lockstep.collector.contract import metrics
from lockstep.dashboard.sources.archive import hardware


def scraped(times: list[float], metric: str = "a", labels: str = "") -> Series:
    return Series(metric, labels, "n", -1, -1, np.array(times), np.arange(float(len(times))))


@pytest.mark.parametrize(
    ("times", "left"),
    [
        ([0.0, 1.0, 2.0, 3.0, 4.0], 5),
        ([0.0, 1.0, 2.0, 3.0, 3.2, 3.9], 4),
        ([0.0, 1.0, 2.0, 3.0, 5.0], 5),
        ([0.0, 1.0, 1.2, 3.0, 4.0], 5),
        ([0.0, 1.0, 1.1], 3),
        ([0.0], 1),
        ([], 0),
    ],
)
def test_the_scrapes_of_the_end_that_came_too_soon_are_left_out(
    times: list[float], left: int
) -> None:
    assert times[:left] == hardware.settled(scraped(times)).times.tolist()


def test_memory_does_not_fall_off_a_cliff_when_the_programs_are_gone() -> None:
    times = np.array([0.0, 1.0, 2.0, 3.0, 3.7])
    total = Series(metrics.HOST_MEMORY_TOTAL.name, "", "n", -1, -1, times, np.full(5, 10.0))
    free = Series(metrics.HOST_MEMORY_AVAILABLE.name, "", "n", -1, -1, times,
                  np.array([4.0, 4.0, 4.0, 4.0, 9.0]))  # fmt: skip
    (memory,) = [each for each in hardware.lines((total, free)) if each.key == "memory"]
    assert [0.6] * 4 == memory.values["median"].tolist()
