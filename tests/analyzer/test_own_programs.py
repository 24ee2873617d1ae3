"""Programs that name no phases, and machines without GPUs: no cause rests on what was not told."""

import json
from dataclasses import replace

import pytest

from lockstep.analyzer.causes.cause_weights import weigh_causes
from lockstep.analyzer.causes.registry import CAUSES
from lockstep.analyzer.report.document import document
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import PHASES

PHASE_COLUMNS = [f"{phase}_seconds" for phase in PHASES]


def without_gpus(run: Run) -> Run:
    ranks = tuple(replace(info, gpu=None, uuid=None) for info in run.ranks)
    samples = run.samples[~run.samples["metric"].str.startswith("lockstep_gpu")]
    return replace(run, ranks=ranks, samples=samples)


def without_phases(run: Run) -> Run:
    """Its waiting is in `other` as well, as of a program that marks nothing."""
    windows = run.windows.assign(**dict.fromkeys(PHASE_COLUMNS, 0.0))
    return replace(run, windows=windows.assign(other_seconds=windows["wall_seconds"]))


def with_cpu(run: Run, seconds: str | float) -> Run:
    """The training threads' CPU time of a step: another column, or so many seconds."""
    cpu = run.windows[seconds] if isinstance(seconds, str) else seconds
    return replace(run, windows=run.windows.assign(cpu_seconds=cpu))


@pytest.fixture
def own(synthetic, fault):
    """A program on CPUs of which nothing is known but its steps; rank 2 is 1.5 times as slow."""
    return without_phases(without_gpus(synthetic(faults=[fault("compute", 2, 1.5, 80)]).run()))


def told(verdict) -> str:
    facts = [fact.text for culprit in verdict.culprits for fact in culprit.evidence]
    return "\n".join([verdict.sentence, *facts])


def test_sleeping_in_the_step_is_time_off_the_processor(own):
    verdict = diagnose(with_cpu(own, 0.004)).verdict

    assert [(2, "unknown")] == [(c.rank, c.cause) for c in verdict.culprits]
    assert "it is off the processor, asleep or waiting" in verdict.sentence
    assert "of the excess is time off the processor" in verdict.sentence


def test_a_thread_that_was_ready_and_had_no_processor_is_not_said_to_sleep(own):
    queued = own.samples["metric"] == "lockstep_rank_run_queue_seconds_total"
    elapsed = own.samples["time"] - own.samples["time"].min()
    samples = own.samples.assign(value=own.samples["value"].where(~queued, 0.6 * elapsed))
    verdict = diagnose(with_cpu(replace(own, samples=samples), 0.004)).verdict

    assert "or was ready and had none (60% of the time)" in told(verdict)


def test_computing_in_the_step_is_told_as_cpu_time_and_as_nobody_s_garbage(own):
    verdict = diagnose(with_cpu(own, "own_seconds")).verdict

    assert [2] == [c.rank for c in verdict.culprits]
    assert verdict.culprits[0].cause != "gc"
    assert "off the processor" not in told(verdict)
    assert "CPU time" in told(verdict)


@pytest.mark.parametrize("seconds", [0.004, "own_seconds"])
def test_a_cause_has_words_only_for_what_is_there(own, seconds):
    diagnosis = diagnose(with_cpu(own, seconds))

    for word in ("copied", "GPU", "PCIe", "no named phase", "in forward"):
        assert word not in told(diagnosis.verdict)
    report = json.dumps(document(diagnosis)["sections"])
    assert "dcgmi" not in report
    assert "nvidia-smi" not in report


def test_a_log_that_tells_no_cpu_time_says_nothing_of_the_processor(own):
    assert "off the processor" not in told(diagnose(with_cpu(own, 0.0)).verdict)


def test_what_peers_wait_in_the_same_phase_is_no_gain_of_theirs(own):
    (finding,) = (each for each in diagnose(own).findings if each.kind == "slow")

    assert {"other": pytest.approx(1.0)} == finding.share


def test_named_phases_still_tell_who_computes_slowly(synthetic, fault):
    run = without_gpus(synthetic(faults=[fault("compute", 2, 1.5, 80)]).run())
    diagnosis = diagnose(with_cpu(run, "own_seconds"))
    report = json.dumps(document(diagnosis)["sections"])

    assert [(2, "slow-gpu")] == [(c.rank, c.cause) for c in diagnosis.verdict.culprits]
    assert "it computes slowly for no reason that the host reports" in diagnosis.verdict.sentence
    assert "GPU-" not in diagnosis.verdict.sentence
    assert "dcgmi" not in report
    assert "LockstepGpu" not in report


def test_with_a_gpu_its_vendor_s_diagnosis_is_the_advice(synthetic, fault):
    run = synthetic(faults=[fault("compute", 2, 1.5, 80)]).run()

    assert "dcgmi diag" in json.dumps(document(diagnose(run))["sections"])


def test_a_rank_without_gpu_can_have_no_cause_of_a_gpu(synthetic, fault):
    diagnosis = diagnose(without_gpus(synthetic(faults=[fault("compute", 2, 1.5, 80)]).run()))
    (finding,) = (each for each in diagnosis.findings if each.kind == "slow")
    causes = [one.cause for one in weigh_causes(diagnosis.grid, [finding])[0]]

    assert [s.cause for s in CAUSES if "slow" in s.kinds and not s.of_gpu] == causes


def test_what_it_waits_for_another_culprit_is_no_excess_of_a_rank(synthetic, fault):
    """Waits lie inside the forward pass, as of programs that gather parameters there."""
    run = synthetic(world=8, faults=[fault("compute", 6, 1.5, 80)]).run()
    windows = run.windows.copy()
    late, others = windows["from_step"] >= 80, windows["rank"] != 6
    usual = float(windows["own_seconds"].median())
    # All but rank 6 wait for it in forward; rank 2 has trouble of its own, in no named phase.
    windows.loc[late & others, "forward_seconds"] += 0.5 * usual
    mine = late & (windows["rank"] == 2)
    for column in ("own_seconds", "other_seconds"):
        windows.loc[mine, column] += 0.2 * usual
    for column in ("collective_seconds", "grad_sync_seconds"):
        windows.loc[mine, column] -= 0.2 * usual
    findings = {one.rank: one for one in diagnose(replace(run, windows=windows)).findings}

    assert 0.9 < findings[2].share["other"]
