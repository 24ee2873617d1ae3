"""Each kind of fault: the right rank, the right cause, since when, by how much."""

import pytest

from lockstep.analyzer.verdict.pipeline import diagnose

CAUSES = {
    "compute": "slow-gpu",
    "thermal": "thermal",
    "power": "power",
    "data": "data",
    "cpu-quota": "host-cpu",
    "contention": "host-cpu",
}


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.2, 1.5, 2.0])
@pytest.mark.parametrize("kind", CAUSES)
@pytest.mark.parametrize("seed", [1])
def test_a_slow_rank_is_named_with_its_cause(synthetic, fault, kind, factor, seed):
    rank = seed % 4
    verdict = diagnose(synthetic(seed=seed, faults=[fault(kind, rank, factor, 80)]).run()).verdict
    culprit = verdict.culprits[0]

    assert [(rank, f"node-{rank}", CAUSES[kind], "page")] == [
        (c.rank, c.node, c.cause, c.tier) for c in verdict.culprits
    ]
    assert factor == pytest.approx(culprit.slowdown, rel=0.06)
    assert 80 == pytest.approx(culprit.from_step, abs=6)
    assert (None, "degraded") == (culprit.to_step, verdict.status)


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_8_percent_hides_no_slowdown_of_1_5(synthetic, fault, seed):
    run = synthetic(seed=seed, noise=0.08, faults=[fault("thermal", seed % 4)]).run()
    verdict = diagnose(run).verdict

    assert [(seed % 4, "thermal")] == [(c.rank, c.cause) for c in verdict.culprits]


def test_a_fault_that_ended_has_an_end(synthetic, fault):
    run = synthetic(faults=[fault("compute", 1, 1.5, 80, 160)]).run()
    culprit = diagnose(run).verdict.culprits[0]

    assert 160 == pytest.approx(culprit.to_step, abs=2)


def test_a_rank_slow_from_the_start_is_named_when_beyond_natural_spread(synthetic, fault):
    slow = diagnose(synthetic(faults=[fault("compute", 1, 1.4, 0)]).run()).verdict
    spread = diagnose(synthetic(faults=[fault("compute", 1, 1.1, 0)]).run()).verdict

    assert [1] == [c.rank for c in slow.culprits]
    assert [] == [c.rank for c in spread.culprits]
    assert [1] == [each.rank for each in spread.rejected]


@pytest.mark.parametrize("world", [4, 8])
def test_two_culprits_are_both_named_and_their_victims_are_not(synthetic, fault, world):
    faults = [fault("thermal", 0, 1.5, 80), fault("data", 3, 1.4, 120)]
    verdict = diagnose(synthetic(world=world, faults=faults).run()).verdict

    assert {(0, "thermal"), (3, "data")} == {(c.rank, c.cause) for c in verdict.culprits}
    assert not {0, 3} & {each.rank for each in verdict.rejected}


@pytest.mark.parametrize("rank", [0, 1])
def test_of_two_ranks_the_past_decides_and_the_text_says_so(synthetic, fault, rank):
    diagnosis = diagnose(synthetic(world=2, noise=0.05, faults=[fault("compute", rank)]).run())

    assert [rank] == [c.rank for c in diagnosis.verdict.culprits]
    assert "its own past decided" in diagnosis.verdict.culprits[0].evidence[0].text


def test_of_what_always_was_slow_no_past_is_said_to_have_decided(synthetic, fault):
    ranks = [fault("thermal", rank, 1.5, 0) for rank in (2, 3)]
    found = diagnose(synthetic(world=4, faults=ranks, ranks_per_node=2).run()).verdict.culprits
    texts = [each.text for one in found for each in one.evidence]

    assert [("node", 0)] == [(one.scope, one.from_step) for one in found]
    assert not [text for text in texts if "its own past decided" in text or " before" in text]
    assert [text for text in texts if "as no other step was seen" in text]
    assert [
        text for text in texts if " MHz, as at its peers" in text or " MHz at its peers" in text
    ]


def test_the_victims_are_let_go_with_a_reason(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("thermal", 2)]).run()).verdict

    assert {0, 1, 3} == {each.rank for each in verdict.rejected}
    assert all("more per step for rank 2; its own time is" in r.why for r in verdict.rejected)


def test_waiting_confirms_the_culprit(synthetic, fault):
    (culprit,) = diagnose(synthetic(faults=[fault("thermal", 2)]).run()).verdict.culprits
    waits = [fact for fact in culprit.evidence if "they wait for it" in fact.text]

    assert [2] == [culprit.rank] * len(waits)
    assert waits[0].supports


@pytest.mark.parametrize(("first", "past"), [(0, False), (80, True)])
def test_what_a_rank_waited_before_it_was_slow_is_told_only_if_it_was_measured(
    synthetic, fault, first, past
):
    (culprit,) = diagnose(
        synthetic(faults=[fault("compute", 1, 1.5, first)]).run()
    ).verdict.culprits
    (wait,) = (fact for fact in culprit.evidence if "they wait for it" in fact.text)

    assert past == ("otherwise" in wait.text)
    assert wait.query.startswith("collective_seconds")


def test_the_cost_is_what_the_peers_waited(synthetic, fault):
    verdict = diagnose(
        synthetic(spikes=False, faults=[fault("compute", 2, 1.5, 80)]).run(), gpu_hour_price=2.0
    ).verdict
    excess_seconds = 160 * 0.5 * 0.0415 * 4

    assert excess_seconds / 3600 == pytest.approx(verdict.lost_gpu_hours, rel=0.1)
    assert verdict.lost_money == pytest.approx(2.0 * verdict.lost_gpu_hours)
    assert verdict.slowdown_interval[0] <= verdict.slowdown <= verdict.slowdown_interval[1]
    assert "bounds" == verdict.what_if["method"]
    assert ["node-2"] == [fix["remove"] for fix in verdict.what_if["fixes"]]


def test_a_small_effect_is_recorded_and_does_not_page(synthetic, fault):
    verdict = diagnose(synthetic(seed=4, faults=[fault("compute", 2, 1.07, 80)]).run()).verdict

    assert [(2, "record")] == [(c.rank, c.tier) for c in verdict.culprits]
