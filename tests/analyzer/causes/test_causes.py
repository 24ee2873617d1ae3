"""What each cause must see, must not see, and makes of telemetry that contradicts or is absent."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.causes.cause_weights import weigh_causes
from lockstep.analyzer.causes.symptoms.gpu_errors import PART
from lockstep.analyzer.verdict.case import accuses
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.xid import NOT_OF_HARDWARE, XIDS

XID = "lockstep_gpu_xid_last_timestamp_seconds"


def _odds(diagnosis):
    finding = next(each for each in diagnosis.findings if accuses(each))
    return {str(each.cause): each for each in weigh_causes(diagnosis.grid, [finding])[0]}


def _texts(verdict, *, supports):
    return [fact.text for fact in verdict.culprits[0].evidence if fact.supports is supports]


def _renumbered(number):
    def drop(samples):
        named = samples["labels"].str.replace('xid="121"', f'xid="{number}"')
        return samples.assign(labels=named)

    return drop


@pytest.mark.sweep
@pytest.mark.parametrize("factor", [1.2, 2.0])
@pytest.mark.parametrize("kind", ["ecc", "xid", "pcie", "nvlink", "gc"])
def test_a_rank_whose_hardware_or_garbage_tells_is_named_with_its_cause(
    synthetic, fault, kind, factor
):
    verdict = diagnose(synthetic(seed=1, faults=[fault(kind, 1, factor, 80)]).run()).verdict

    assert [(1, "node-1", kind)] == [(c.rank, c.node, c.cause) for c in verdict.culprits]
    assert factor == pytest.approx(verdict.culprits[0].slowdown, rel=0.06)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ecc", "uncorrectable memory errors a minute and corrects 39"),
        ("xid", "XID 121 (corrected error on the C2C link) of the simulated GPU, since the slow"),
        ("pcie", "PCIe link fell to x4 generation 5 from x16 generation 5 and sent 25 packets"),
        ("nvlink", "1 of the simulated GPU's 2 NVLinks are down, with 39"),
    ],
)
def test_the_gpus_own_words_are_the_evidence(synthetic, fault, kind, words):
    verdict = diagnose(synthetic(faults=[fault(kind, 2)]).run()).verdict

    assert any(words in text for text in _texts(verdict, supports=True))
    assert words.split(" (")[0] in verdict.sentence


@pytest.mark.parametrize("kind", ["ecc", "xid", "pcie", "nvlink"])
def test_trouble_of_another_time_is_no_cause(synthetic, fault, kind):
    """The GPU tells of trouble 100 steps after the rank became slow."""
    early = [fault("compute", 2, 1.5, 60), fault(kind, 2, 1.0, 400)]
    diagnosis = diagnose(synthetic(steps=700, faults=early).run())

    assert diagnosis.verdict.culprits[0].cause in ("slow-gpu", "unknown")
    assert _odds(diagnosis)[kind].log_odds <= 0.0


@pytest.mark.parametrize("kind", ["ecc", "xid", "pcie", "nvlink"])
def test_the_same_trouble_on_a_peer_is_not_the_ranks(synthetic, fault, kind):
    verdict = diagnose(
        synthetic(faults=[fault("compute", 2, 1.5, 80), fault(kind, 1, 1.0, 80)]).run()
    ).verdict

    assert [(2, "slow-gpu")] == [(c.rank, c.cause) for c in verdict.culprits]


@pytest.mark.parametrize("kind", ["ecc", "pcie", "nvlink"])
def test_without_the_gpus_words_the_cause_is_not_named(synthetic, fault, kind):
    def blind(samples):
        return samples[~samples["metric"].str.contains("ecc|xid|pcie|nvlink")]

    verdict = diagnose(synthetic(faults=[fault(kind, 2)], drop=blind).run()).verdict

    assert [2] == [c.rank for c in verdict.culprits]
    assert kind != verdict.culprits[0].cause


def test_copies_over_a_fallen_pcie_link_are_not_late_data(synthetic, fault):
    odds = _odds(diagnose(synthetic(faults=[fault("pcie", 2)]).run()))

    assert odds["data"].log_odds < 1.0 < odds["pcie"].log_odds
    assert any("PCIe" in fact.text for fact in odds["data"].facts if not fact.supports)


@pytest.mark.parametrize(("number", "cause"), [(63, "ecc"), (74, "nvlink")])
def test_an_xid_of_a_part_leaves_the_word_to_the_part(synthetic, fault, number, cause):
    faults = [fault("xid", 2, 1.5), fault(cause, 2, 1.0)]
    run = synthetic(faults=faults, drop=_renumbered(number)).run()
    odds = _odds(diagnose(run))

    assert odds["xid"].log_odds < odds[cause].log_odds


@pytest.mark.parametrize("number", NOT_OF_HARDWARE)
def test_an_xid_that_the_application_caused_accuses_no_gpu(synthetic, fault, number):
    run = synthetic(faults=[fault("xid", 2)], drop=_renumbered(number)).run()

    assert "slow-gpu" == diagnose(run).verdict.culprits[0].cause


def test_an_xid_whose_line_tells_no_trouble_accuses_no_gpu(synthetic, fault):
    """As 154 with the recovery action None."""

    def harmless(samples):
        rows = samples["metric"].str.startswith("lockstep_gpu_xid")
        labels = samples["labels"].str.replace(r'severity="\w+",?', "", regex=True)
        told = 'severity="info",' + labels.str.replace('xid="121"', 'xid="154"')
        return samples.assign(labels=samples["labels"].where(~rows, told))

    run = synthetic(faults=[fault("xid", 2)], drop=harmless).run()

    assert "slow-gpu" == diagnose(run).verdict.culprits[0].cause


def test_seconds_in_the_garbage_collector_decide(synthetic, fault):
    diagnosis = diagnose(synthetic(faults=[fault("gc", 2)]).run())
    own = diagnosis.grid.time["own"]

    def told(share):
        excess = np.maximum(own - np.nanmedian(own, axis=1, keepdims=True), 0.0)
        time = {**diagnosis.grid.time, "gc": share * excess}
        grid = dataclasses.replace(diagnosis.grid, time=time)
        return _odds(dataclasses.replace(diagnosis, grid=grid))

    assert told(0.6)["gc"].log_odds > 2.0 > -1.0 > told(0.0)["gc"].log_odds
    assert told(0.6)["host-cpu"].log_odds < told(0.0)["host-cpu"].log_odds


def test_xids_of_parts_are_in_the_catalogue():
    assert set(PART) | set(NOT_OF_HARDWARE) <= set(XIDS)


@pytest.mark.parametrize("number", [48, 63, 74, 79, 94])
def test_any_xid_before_a_process_ended_is_why_it_ended(synthetic, fault, number):
    ended = diagnose(synthetic(faults=[fault("crash", 2)]).run())
    when = float(ended.grid.end.max()) - 1.0

    def logged(samples):
        rows = samples[(samples["metric"] == "up") & (samples["node"] == "node-2")]
        told = rows.assign(metric=XID, labels=f'xid="{number}"', gpu=0, value=when)
        return pd.concat([samples, told[told["time"] >= when].astype({"gpu": "Int32"})])

    (culprit,) = diagnose(synthetic(faults=[fault("crash", 2)], drop=logged).run()).verdict.culprits
    assert [(2, "crash")] == [(c.rank, c.cause) for c in ended.verdict.culprits]
    assert (2, "xid") == (culprit.rank, culprit.cause)
    assert not any("logged no XID" in fact.text for fact in culprit.evidence)
