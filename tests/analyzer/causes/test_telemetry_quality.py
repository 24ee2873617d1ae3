"""Missing and contradictory telemetry: lower confidence, never another culprit."""

import dataclasses

import pytest

from lockstep.analyzer.verdict.pipeline import diagnose

THROTTLE = "lockstep_gpu_clock_event_seconds_total"
CLOCK = "lockstep_gpu_clock_hertz"


def _confidence(verdict):
    (culprit,) = verdict.culprits
    return culprit.confidence


def test_without_gpu_telemetry_the_cause_is_unknown_and_the_rank_stays(synthetic, fault):
    faults = [fault("compute", 2)]
    whole = diagnose(synthetic(faults=faults).run()).verdict
    blind = diagnose(
        synthetic(
            faults=faults, drop=lambda frame: frame[~frame["metric"].str.contains("_gpu_")]
        ).run()
    ).verdict

    assert [2] == [c.rank for c in blind.culprits]
    assert ("slow-gpu", "unknown") == (whole.culprits[0].cause, blind.culprits[0].cause)
    assert any("unknown: " in fact.text for fact in blind.culprits[0].evidence)


def test_throttling_at_the_maximum_clock_is_told_as_what_speaks_against(synthetic, fault):
    def full_clock(samples):
        clock = samples["metric"] == CLOCK
        return samples.assign(value=samples["value"].mask(clock, 1.98e9))

    faults = [fault("thermal", 2)]
    torn = diagnose(synthetic(faults=faults, drop=full_clock).run()).verdict

    assert [2] == [c.rank for c in torn.culprits]
    against = [fact.text for fact in torn.culprits[0].evidence if not fact.supports]
    assert any("SM clock 1980 MHz" in text for text in against)


def test_without_any_telemetry_the_rank_is_named_and_the_cause_is_unknown(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("thermal", 2)], telemetry=False).run()).verdict

    assert [2] == [c.rank for c in verdict.culprits]
    assert "unknown" == verdict.culprits[0].cause
    assert any("no telemetry" in word for word in verdict.missing)


def test_lost_step_times_lower_the_coverage(synthetic, fault):
    run = synthetic(faults=[fault("thermal", 2)]).run()
    kept = run.windows.sample(frac=0.6, random_state=1)
    torn = diagnose(dataclasses.replace(run, windows=kept)).verdict

    assert [2] == [c.rank for c in torn.culprits]
    assert 0.6 == pytest.approx(torn.coverage, abs=0.01)


def test_a_throttle_that_was_always_there_is_no_cause_of_a_new_slowdown(synthetic, fault):
    def always(samples):
        throttle = (samples["metric"] == THROTTLE) & samples["labels"].str.contains("hw_thermal")
        return samples.assign(
            value=samples["value"].mask(throttle, 0.8 * (samples["time"] - 1_760_000_000.0))
        )

    verdict = diagnose(synthetic(faults=[fault("compute", 2)], drop=always).run()).verdict

    assert "thermal" not in [c.cause for c in verdict.culprits]


def test_alternatives_and_the_named_cause_share_one_probability(synthetic, fault):
    verdict = diagnose(synthetic(faults=[fault("compute", 2)]).run()).verdict
    others = sum(each["confidence"] for each in verdict.alternatives)

    assert others + _confidence(verdict) <= 1.0
