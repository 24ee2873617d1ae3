"""What was lost and is lost a day: with intervals, in money, and out of the last hour only."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.report.sections.impact import losses
from lockstep.analyzer.report.sections.what_if import gives_back
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.stragglers.step_time import Cost, cost, ideal_step_seconds
from lockstep.analyzer.verdict.cost import DAY_SECONDS, LAST_SECONDS, loss
from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.stages import verdict_of


@pytest.fixture
def thermal(synthetic, fault):
    return diagnose(synthetic(faults=[fault("thermal", 2, 1.5, 80)]).run(), gpu_hour_price=2.0)


def _stretched(diagnosis, times):
    """The same run with steps that take `times` as long."""
    grid = diagnosis.grid
    begin = grid.start[0]
    return dataclasses.replace(
        grid,
        start=begin + times * (grid.start - begin),
        end=begin + times * (grid.end - begin),
        scraped_until=begin + times * (grid.scraped_until - begin),
        time={name: times * cells for name, cells in grid.time.items()},
    )


def test_a_day_costs_what_the_span_did_as_often_as_it_fits_into_a_day(thermal):
    verdict = thermal.verdict
    told = verdict.lost_per_day

    day = verdict.lost_gpu_hours * DAY_SECONDS / told["over_seconds"]
    assert day == pytest.approx(told["gpu_hours"], rel=1e-6)
    # Steps of 1.44x their ideal time on 4 GPUs: 4 * 24 * (1 - 1 / 1.44).
    assert 4 * 24 * (1 - 1 / verdict.slowdown) == pytest.approx(told["gpu_hours"], rel=0.02)


def test_losses_lie_in_their_intervals_and_money_is_hours_at_the_price(thermal):
    verdict, told = thermal.verdict, thermal.verdict.lost_per_day

    low, high = verdict.lost_gpu_hours_interval
    assert 0 < low < verdict.lost_gpu_hours < high
    assert told["interval"][0] < told["gpu_hours"] < told["interval"][1]
    assert (2 * low, 2 * high) == verdict.lost_money_interval
    assert 2 * told["gpu_hours"] == told["money"]
    assert 2 * verdict.lost_gpu_hours == verdict.lost_money


def test_what_steps_that_are_slow_by_design_take_is_no_level_of_the_others(thermal):
    """Checkpoints of a second in two steps: all others cost what they did without them."""
    grid, slow = thermal.grid, [each for each in thermal.findings if each.kind == "slow"]
    factors = [each.slowdown for each in slow]
    masked = grid.masked.copy()
    masked[[100, 150]] = True
    own = grid.time["own"].copy()
    own[[100, 150]] += 1.0
    saved = dataclasses.replace(grid, masked=masked, time={**grid.time, "own": own})
    whole = dataclasses.replace(saved, masked=np.ones_like(masked))
    others = ~masked

    before, told = (ideal_step_seconds(each, slow, factors)[others] for each in (grid, saved))
    assert told == pytest.approx(before, rel=1e-3)
    # Where every step is slow by design nobody knows their level, and nothing is lost.
    assert ideal_step_seconds(whole, slow, factors)[others] == pytest.approx(
        np.nanmedian(grid.time["wall"], axis=1)[others]
    )


def test_the_interval_of_the_loss_is_that_of_the_slowdown():
    # 100 GPU-hours were spent; 20 % of them at S = 1.25.
    assert (100 * (1 - 1 / 1.2), 100 * (1 - 1 / 1.3)) == pytest.approx(
        Cost(1.25, (1.2, 1.3), 20.0).lost_interval
    )
    assert (0.0, 0.0) == Cost(1.0, (1.0, 1.0), 0.0).lost_interval


def test_a_day_is_projected_from_the_last_hour_of_the_trouble(thermal):
    """Half as slow in the first part of the span: the last hour knows nothing of it."""
    hour = _stretched(thermal, 1.2 * LAST_SECONDS / np.ptp(thermal.grid.end[80:]))
    slow = [each for each in thermal.findings if each.kind == "slow"]
    bill = Cost(thermal.verdict.slowdown, thermal.verdict.slowdown_interval, 1.0)
    told = loss(hour, bill, slow, None, []).per_day

    assert LAST_SECONDS == pytest.approx(told.over_seconds, rel=0.02)


def test_a_fault_that_grows_costs_a_day_what_it_costs_now(thermal):
    """Own time of rank 2 climbs on to three times what it was: the last hour is the dearest."""
    hours = _stretched(thermal, 2 * LAST_SECONDS / np.ptp(thermal.grid.end[80:]))
    slow = [each for each in thermal.findings if each.kind == "slow"]
    own, wall = hours.time["own"].copy(), hours.time["wall"].copy()
    more = np.linspace(0.0, 2.0, len(own) - 80)[:, None] * own[:80, [2]].mean()
    own[80:, [2]] += more
    wall[80:] += more
    end = hours.start[0] + np.cumsum(np.median(wall, axis=1))
    growing = dataclasses.replace(
        hours,
        start=np.append(hours.start[0], end[:-1]),
        end=end,
        time={**hours.time, "own": own, "wall": wall},
    )
    bill = cost(growing, slow)
    told = loss(growing, bill, slow, None, []).per_day

    level = own[80:, 2].mean() / slow[0].slowdown
    last = growing.start >= growing.end[-1] - LAST_SECONDS
    excess = np.sum(own[last, 2] - level) / np.sum(wall[last, 2])
    assert 4 * 24 * excess == pytest.approx(told.gpu_hours, rel=0.1)


def test_trouble_that_is_over_does_not_go_on(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2, 1.5, 80, 160)], steps=300).run()
    verdict = diagnose(run).verdict

    assert False is verdict.lost_per_day["goes_on"]
    assert any("had it gone on" in what for what, _ in losses(verdict))


def test_a_healthy_run_loses_nothing_a_day(synthetic):
    verdict = diagnose(synthetic().run()).verdict

    assert (0.0, (0.0, 0.0), None) == (
        verdict.lost_gpu_hours, verdict.lost_gpu_hours_interval, verdict.lost_per_day
    )  # fmt: skip


def test_a_run_that_stands_still_loses_all_its_gpus_day_and_night(synthetic, fault):
    told = diagnose(synthetic(faults=[fault("freeze", 2)]).run()).verdict.lost_per_day

    assert (4 * 24.0, True) == (told["gpu_hours"], told["goes_on"])


def test_the_sentence_speaks_of_days_once_minutes_were_seen(thermal):
    grid = _stretched(thermal, 60.0)
    long = verdict_of(grid, thermal.findings, gpu_hour_price=2.0)

    assert "a day" not in thermal.verdict.sentence
    assert " GPU-hours (58." in long.sentence
    assert "a day if it goes on" in long.sentence


def test_the_verdicts_json_gains_fields_at_its_end_and_loses_none(thermal):
    keys = list(verdict_json(thermal.verdict))

    assert ["lost_money", "lost_gpu_hours_interval", "lost_money_interval", "lost_per_day",
            "recurrence"] == keys[keys.index("lost_money"):][:5]  # fmt: skip


@pytest.mark.parametrize(
    ("gain", "interval", "words"),
    [
        (0.18, [0.16, 0.20], "+22 % steps an hour (95 % interval +19 % to +25 %)"),
        (0.03, [0.02, 0.04], "+3.1 % steps an hour (95 % interval +2.0 % to +4.2 %)"),
        (0.5, None, "+100 % steps an hour"),
        (1.0, None, "any number of steps an hour"),
    ],
)
def test_what_a_fix_gives_back_is_told_in_steps(gain, interval, words):
    fix = {"remove": "node-3", "gain": gain, "interval": interval}

    assert f"without node-3: {words}" == gives_back(fix)


def test_what_has_ended_costs_nothing_a_day_beside_what_goes_on(synthetic, fault):
    """Twice the time for a third of the run, then 1.2 times to its end."""
    over = fault("compute", 1, 2.0, 40, last=120)
    run = synthetic(faults=[over, fault("compute", 2, 1.2, 150)]).run()
    diagnosis = diagnose(run)
    told = diagnosis.verdict.lost_per_day

    assert {1, 2} == {one.rank for one in diagnosis.verdict.culprits}
    assert told["goes_on"]
    assert 4 * 24 * (1 - 1 / 1.2) == pytest.approx(told["gpu_hours"], rel=0.25)
