"""Every check of a node has words and a next step, in an archive as over Prometheus."""

import numpy as np
import pytest

from lockstep.analyzer.read.archive.series import Series
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Severity, Span
from lockstep.dashboard.sources.archive.nodes import checks as archived
from lockstep.dashboard.sources.check_table import (
    CRITICAL,
    LIMITS,
    LIVE,
    NEXT_STEPS,
    STATES,
    Live,
    State,
)
from lockstep.dashboard.sources.prometheus.node_facts import checks


class Told:
    """A Prometheus that answers every query with one value; None = with nothing."""

    def __init__(self, value: float | None) -> None:
        self.value = value

    def instant(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        return [] if self.value is None else [({}, self.value)]


def test_every_limit_has_a_next_step_and_every_name_is_known() -> None:
    assert LIMITS.keys() == NEXT_STEPS.keys()
    assert set(CRITICAL) <= LIMITS.keys()


def test_a_live_check_of_a_state_is_one_that_archives_are_checked_for() -> None:
    assert {each.check for each in LIVE if isinstance(each.check, State)} <= set(STATES)


@pytest.mark.parametrize("live", LIVE, ids=lambda live: live.name)
@pytest.mark.parametrize(("value", "good"), [(0.0, True), (1.0, False), (None, None)])
def test_what_is_not_told_is_not_known_and_more_than_the_limit_is_said(
    live: Live, value: float | None, good: bool | None
) -> None:
    found = next(each for each in checks(Told(value), 'job="j"', 0.0) if each.name == live.name)  # type: ignore[arg-type]
    assert {None: Severity.UNKNOWN, True: Severity.OK, False: live.severity}[good] == found.severity
    assert ("" if good is not False else live.next_step) == found.next_step


def test_a_register_at_its_maximum_is_no_check_passed() -> None:
    port = 'device="mlx5_0",kind="{}",port="1"'
    times = np.arange(10.0)
    told = [
        Series(m.IB_ERRORS.name, port.format("symbol_error"), "n", -1, -1, times, np.zeros(10)),
        Series(m.IB_SATURATED.name, port.format("link_downed"), "n", -1, -1, times, np.ones(10)),
    ]
    (known,), (unknown,) = (
        [each for each in archived(some, Span(0.0, 10.0)) if each.name == "InfiniBand port errors"]
        for some in (told[:1], told)
    )

    assert Severity.OK == known.severity
    assert Severity.UNKNOWN == unknown.severity
    assert "at their maximum: link_downed" in unknown.text
