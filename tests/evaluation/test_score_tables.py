"""Wholly real signals and simulated telemetry: two tables, each with its own faults only."""

from typing import Any

from lockstep.collector.contract.words import FaultKind
from lockstep.evaluation import score_tables
from lockstep.workloads.faults.kinds import BUILT

NOBODY: dict[str, Any] = {"culprits": [], "alternatives": []}


def _run(kind: str | None, cause: str = "", named: str | None = None) -> dict[str, Any]:
    culprit = {"rank": 1, "node": "node-1", "cause": named, "confidence": 0.9, "tier": "page"}
    return {
        "truth": kind and {"kind": kind, "cause": cause, "rank": 1, "node": "node-1"},
        "verdict": {**NOBODY, "culprits": [culprit]} if named else NOBODY,
        "delay_seconds": None, "node_hours": 1.0, "baselines": {},
    }  # fmt: skip


def _fault(kind: str, cause: str, named: str | None) -> dict[str, Any]:
    return {
        "kind": kind, "fault": f"{kind}:rank=1", "cause": cause,
        "rank_right": named is not None, "cause_right": named == cause,
        "named": [{"rank": 1, "node": "node-1", "cause": named}] if named else [],
    }  # fmt: skip


def test_only_the_faults_of_gpu_hardware_have_simulated_telemetry() -> None:
    real = {kind for kind in BUILT if score_tables.table_of(kind) == "real_signals"}
    stops = {FaultKind.FREEZE, FaultKind.CRASH}
    links = {FaultKind.LINK_BANDWIDTH, FaultKind.LINK_DELAY}

    assert {FaultKind.COMPUTE, FaultKind.CPU_QUOTA, FaultKind.DATA, FaultKind.GC} == (
        real - stops - links
    )
    assert stops | links <= real


def test_each_table_has_its_own_faults_and_all_healthy_runs() -> None:
    lines = [_run("data", "data", "data"), _run("data", "data"), _run("ecc", "ecc", "xid"),
             _run(None)]  # fmt: skip
    found = score_tables.of_runs(lines)

    assert ["real_signals", "simulated_telemetry"] == list(found)
    assert [(1, 2), (1, 1)] == [(t["recall"]["count"], t["recall"]["of"]) for t in found.values()]
    assert [1, 1] == [table["healthy"] for table in found.values()]
    assert [0.5, 0.0] == [table["cause_macro"]["value"] for table in found.values()]
    assert {"xid": 1} == found["simulated_telemetry"]["by_cause"]["ecc"]["instead"]


def test_each_fault_tried_counts_for_its_cause_and_a_disturbance_for_none() -> None:
    lines = [_fault("gc", "gc", "gc"), _fault("gc", "gc", None), _fault("data", "data", "link"),
             {"kind": "gc", "fault": None, "rank_right": True}]  # fmt: skip
    (found,) = score_tables.of_faults(lines).values()

    assert (2, 3) == (found["rank_right"]["count"], found["rank_right"]["of"])
    assert 0.25 == found["cause_macro"]["value"]
    assert {"link": 1} == found["by_cause"]["data"]["instead"]


def test_what_is_printed_has_counts_and_intervals_under_the_name_of_its_table() -> None:
    tables = score_tables.of_faults([_fault("gc", "gc", "gc"), _fault("ecc", "ecc", "ecc")])
    first, causes, second, _ = score_tables.printed(tables)

    assert first.startswith("real processes, wholly real signals:\nfigure")
    assert second.startswith("real processes with simulated telemetry:\nfigure")
    assert "1 of 1" in causes
    assert "0.207 to 1" in causes
    assert "mean of 1" in first


def test_a_table_without_a_fault_is_not_there() -> None:
    assert ["real_signals"] == list(score_tables.of_faults([_fault("gc", "gc", "gc")]))
