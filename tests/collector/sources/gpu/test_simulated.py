import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract.device import MAX_AGE_SECONDS
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.gpu.simulated import SimulatedGpus, parse


@pytest.fixture
def gpus(machine):
    machine.process(100)
    return SimulatedGpus(machine.rings, machine.proc, machine.clock)


def test_a_node_without_simulated_gpus_has_no_source(gpus):
    assert not gpus.available()


def test_a_fresh_state_is_given_as_it_stands(machine, gpus, gpu_state):
    machine.gpu(gpu_state())

    assert gpus.read().gpus == (gpu_state(),)


def test_a_state_that_is_too_old_leaves_no_stale_value(machine, gpus, gpu_state):
    machine.gpu(gpu_state())
    machine.clock.sleep(MAX_AGE_SECONDS)

    reading = gpus.read()

    assert (reading.gpus, reading.rejected) == ((), ())


def test_a_state_of_another_boot_is_not_given(machine, gpus, gpu_state):
    machine.gpu(gpu_state(time_ns=10**15))

    assert gpus.read().gpus == ()


def test_a_state_whose_process_is_gone_is_not_given(machine, gpus, gpu_state):
    machine.gpu(gpu_state(pid=101))

    assert gpus.read().gpus == ()


def test_xids_are_told_on_when_the_rank_is_gone_as_the_kernel_log_does(machine, gpus, gpu_state):
    machine.gpu(gpu_state(pid=101))

    reading = gpus.read()

    assert ((), (gpu_state(pid=101),)) == (reading.gpus, reading.logged)


def test_xids_of_another_boot_are_not_told(machine, gpus, gpu_state):
    machine.gpu(gpu_state(time_ns=10**15))

    assert gpus.read().logged == ()


@pytest.mark.sweep
@pytest.mark.parametrize(
    "change",
    [
        {"power_watts": "700"},
        {"power_watts": float("nan")},
        {"power_watts": True},
        {"gpu": 1.5},
        {"gpu": 10**400},
        {"energy_joules": 10**400},
        {"uuid": 'a"b\n'},
        {"uuid": "x" * 10_000},
        {"clock_event_seconds": {"hw_thermal": None}},
        {"clock_event_seconds": {"unheard_of": 1.0}},
        {"clock_event_active": [1]},
        {"clock_event_active": ["unheard_of"]},
        {"pid": -1},
        {"ecc_errors": {"corrected": 1.0}},
        {"remapped_rows": {"other": 1.0}},
        {"nvlink_up": {"18": 1.0}},
        {"nvlink_errors": {"0/replay": 1.0}},
        {"xid_errors": {"9999": 1.0}},
        {"xid_last": {}},
        {"pcie_width": None},
    ],
)
def test_a_hostile_state_is_counted_and_the_others_stand(machine, gpus, gpu_state, change):
    machine.gpu(gpu_state(gpu=1, uuid="GPU-1"))
    (machine.rings / "gpu-0.json").write_text(json.dumps(gpu_state() | change))

    reading = gpus.read()

    assert [state["gpu"] for state in reading.gpus] == [1]
    assert [one.reason for one in reading.rejected] == ["content"]


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"null", b"[" * 50_000, b"\xff"])
def test_what_is_no_state_is_refused(raw):
    with pytest.raises(SourceError):
        parse(raw)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused(raw):
    with pytest.raises(SourceError):
        parse(raw)
