"""What the simulated GPU tells of each fault, and when."""

import json
from pathlib import Path

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.device import DeviceState, file_name
from lockstep.collector.contract.words import FaultKind
from lockstep.collector.samples import simulated_gpu
from lockstep.collector.sources.gpu.simulated import SimulatedGpus, parse
from lockstep.workloads.faults.simulated_gpu import SimulatedGpu, Trouble

STEP = 0.05


def lived(
    kind: FaultKind | None, seconds: float = 6.0, xids: tuple[int, ...] = ()
) -> tuple[SimulatedGpu, DeviceState]:
    gpu = SimulatedGpu(0, "SIM-a", seed=4)
    kinds = frozenset() if kind is None else frozenset((kind,))
    for step in range(round(seconds / STEP)):
        gpu.advance(STEP, 0.8, Trouble(kinds, 1.0, xids=xids if step == 0 else ()))
    return gpu, gpu.state()


def test_a_healthy_gpu_has_no_errors_and_whole_links() -> None:
    _, state = lived(None)

    counts = (state["ecc_errors"], state["remapped_rows"], state["nvlink_errors"])
    assert {0.0} == {value for each in counts for value in each.values()}
    assert (16, 5, 0) == (state["pcie_width"], state["pcie_generation"], state["pcie_replay"])
    assert {1.0} == set(state["nvlink_up"].values())
    assert {} == state["xid_errors"] == state["xid_last"]


def test_corrected_memory_errors_come_before_the_uncorrectable_one_that_costs_a_row() -> None:
    _, early = lived(FaultKind.ECC, seconds=0.5)
    _, late = lived(FaultKind.ECC)

    assert early["ecc_errors"]["corrected/volatile"] > 0
    assert 0 == early["ecc_errors"]["uncorrected/volatile"] == early["row_remap_pending"]
    assert 2 == late["ecc_errors"]["uncorrected/aggregate"]
    assert 2 == late["remapped_rows"]["uncorrectable"]
    assert 1 == late["row_remap_pending"]
    assert {"63": 2.0} == late["xid_errors"]


def test_volatile_and_aggregate_counts_agree_for_a_part_whose_life_began_with_the_run() -> None:
    errors = lived(FaultKind.ECC)[1]["ecc_errors"]

    assert errors["corrected/volatile"] == errors["corrected/aggregate"]


def test_a_bad_pcie_link_trains_down_replays_and_comes_back() -> None:
    gpu, slow = lived(FaultKind.PCIE)
    gpu.advance(STEP, 0.8)
    after = gpu.state()

    assert (4, 4) == (slow["pcie_width"], slow["pcie_generation"])
    assert (16, 5) == (after["pcie_width"], after["pcie_generation"])
    assert 150 == slow["pcie_replay"] == after["pcie_replay"]


def test_bad_nvlinks_are_down_and_count_errors() -> None:
    _, state = lived(FaultKind.NVLINK)

    assert 16 == sum(state["nvlink_up"].values())
    assert all(count > 0 for count in state["nvlink_errors"].values())
    assert 16 == state["pcie_width"]


def test_a_repeated_xid_is_counted_again() -> None:
    _, state = lived(FaultKind.XID, xids=(121, 121))

    assert {"121": 2.0} == state["xid_errors"]
    assert {"121"} == set(state["xid_last"])


def test_no_fault_but_heat_and_power_touches_the_clock() -> None:
    for kind in (FaultKind.ECC, FaultKind.XID, FaultKind.PCIE, FaultKind.NVLINK):
        state = lived(kind)[1]
        assert state["sm_clock_hertz"] == state["sm_clock_max_hertz"]
        assert [] == state["clock_event_active"]


def test_the_collector_reads_what_the_gpu_writes_and_gives_it_the_names_of_real_gpus(
    tmp_path: Path,
) -> None:
    gpu, state = lived(FaultKind.ECC, xids=(79,))
    gpu.write(tmp_path / file_name(0))
    assert parse((tmp_path / file_name(0)).read_bytes()) == state | {
        "time_ns": json.loads((tmp_path / file_name(0)).read_text())["time_ns"]
    }
    reading = SimulatedGpus(tmp_path, Path("/proc"), SystemClock()).read()
    seen = {(s.metric.name, s.labels): s.value for s in simulated_gpu.collect(reading)}

    who = ("0", "SIM-a")
    assert 2 == seen[m.GPU_ECC_ERRORS.name, (*who, "uncorrected", "volatile")]
    assert 2 == seen[m.GPU_REMAPPED_ROWS.name, (*who, "uncorrectable")]
    assert 16 == seen[m.GPU_PCIE_WIDTH.name, who]
    assert 1 == seen[m.GPU_NVLINK_UP.name, (*who, "17")]
    assert 0 == seen[m.GPU_NVLINK_ERRORS.name, (*who, "all", "replay")]
    assert 1 == seen[m.GPU_XID_ERRORS.name, (*who, "", "79", "simulated", "fatal")]
    assert seen[m.GPU_XID_LAST.name, (*who, "", "79", "fatal")] > 1.7e9
