"""Captures of machines, and the pages that they make."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metric_rows import gpu as gpu_metrics
from lockstep.collector.contract.metrics import METRICS
from lockstep.collector.exporter.page import render
from lockstep.collector.readings.source import SourceError
from lockstep.collector.recorder.capture import capture
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.replay import FILE, Replay, lines, load

TESTS = Path(__file__).parents[3]
MACHINES = sorted(path.parent for path in (TESTS / "fixtures/machines").glob(f"*/{FILE}"))
GOLDEN = TESTS / "golden/machines"
GPU_IS_LOST = 15
NOT_IN_A_CAPTURE = {
    m.GPU_SAMPLE_INTERVAL.name: "it is of the collector and not of the machine",
    m.GPU_LAST_XID.name: "DCGM tells it; test_dcgm_exporter.py has pages with it",
    m.GPU_NVLINK_BER.name: "no capture of NVLink 5 yet",
    m.GPU_RETIRED_PAGES.name: "no capture from before Ampere yet",
    m.GPU_RETIRED_PENDING.name: "no capture from before Ampere yet",
}


def page(folder: Path, clock) -> str:
    source = Replay(folder, clock)
    source.read()
    clock.sleep(1.0)
    return render(list(collect(source.read())))


@pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)
def test_the_page_of_a_captured_machine_is_known(folder, clock, golden):
    golden(f"machines/{folder.name}.txt", page(folder, clock))


def test_every_golden_page_has_its_capture():
    assert {path.name for path in MACHINES} == {path.stem for path in GOLDEN.glob("*.txt")}


@pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)
def test_a_capture_says_where_its_values_come_from(folder):
    origin = load(folder).origin

    assert origin.startswith("captured on hardware: ") or origin.endswith(
        "constructed from documented values, not captured on hardware"
    )
    assert len(folder.name.split("__")) == 3


def test_the_captures_have_every_metric_of_gpus(clock):
    told = {line.split()[2] for path in MACHINES for line in page(path, clock).splitlines()
            if line.startswith("# TYPE")}  # fmt: skip
    known = {x.name for x in vars(gpu_metrics).values() if isinstance(x, m.Metric)}

    assert known - told <= set(NOT_IN_A_CAPTURE)
    assert known <= set(METRICS)


def test_a_replayed_gpu_says_so(clock):
    assert 'simulated="replay"' in page(MACHINES[0], clock)


def test_a_capture_is_played_at_its_pace(clock):
    source = Replay(
        TESTS / "fixtures/machines/ubuntu-22.04__nvidia-h100-80gb-hbm3__550.54.15", clock
    )

    def energy() -> float | None:
        return source.read().gpus[0].value(m.GPU_ENERGY.name)

    first = energy()
    clock.sleep(0.5)
    between = energy()
    clock.sleep(0.6)
    second = energy()
    clock.sleep(3600)

    assert first == between
    assert second == first + 655.25
    assert energy() == second


@pytest.mark.parametrize("folder", MACHINES, ids=lambda path: path.name)
def test_what_is_written_is_what_is_read(folder, tmp_path):
    before = load(folder)
    (tmp_path / FILE).write_text("\n".join(lines(before.origin, before.readings)) + "\n")

    assert load(tmp_path) == before


def test_this_machines_gpus_are_captured_without_their_names(nvml, machine, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.collector.recorder.capture.PERIOD_SECONDS", 0.05)
    folder = capture(tmp_path, machine.config(), SystemClock())
    text = (folder / FILE).read_text()

    assert folder.name.endswith("__nvidia-h100-80gb-hbm3__550.54.15")
    assert "1654321000" not in text
    assert load(folder).origin.startswith("captured on hardware: NVIDIA H100 80GB HBM3")
    assert len(load(folder).readings[-1][1].gpus) == 2


def test_a_capture_is_named_after_a_gpu_that_answers(nvml, machine, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.collector.recorder.capture.PERIOD_SECONDS", 0.05)
    nvml.gpu(0).every_rc = GPU_IS_LOST
    folder = capture(tmp_path, machine.config(), SystemClock())

    assert folder.name.endswith("__nvidia-h100-80gb-hbm3__550.54.15")


def test_where_every_gpu_is_lost_nothing_is_captured(nvml, machine, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.collector.recorder.capture.PERIOD_SECONDS", 0.05)
    for index in range(2):
        nvml.gpu(index).every_rc = GPU_IS_LOST

    with pytest.raises(SourceError, match="no GPU on this machine that reports its name"):
        capture(tmp_path, machine.config(), SystemClock())
    assert [] == list(tmp_path.glob("*__*"))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"origin": None, "seconds": "0"},
        {"gpus": [{"index": "0", "uuid": "a", "info": {}, "values": {}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {"color": "red"}, "values": {}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {}, "values": {"horsepower": {"": 1}}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {}, "values": {"power_watts": {"x": 1}}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {}, "values": {"power_watts": {"": True}}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {}, "values": {"power_watts": {"": 1e999}}}]},
        {"gpus": [{"index": 0, "uuid": "a", "info": {}, "values": {"power_watts": {"": 10**400}}}]},
        {"gpus": None},
    ],
)
def test_what_is_no_capture_is_refused(tmp_path, change):
    header = {"schema_version": 1, "origin": "x"}
    row = {"seconds": 0, "gpus": [], "expected": None, "present": None}
    for key, value in change.items():
        (header if key in header else row)[key] = value
    if "seconds" in change:
        row["seconds"] = change["seconds"]
    (tmp_path / FILE).write_text(f"{json.dumps(header)}\n{json.dumps(row)}\n")

    with pytest.raises(SourceError, match="is not a capture"):
        load(tmp_path)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_noise_is_refused(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("noise")
    (folder / FILE).write_text(text + "\n", "utf-8", "surrogatepass")

    with pytest.raises(SourceError):
        load(folder)
