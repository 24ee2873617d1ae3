"""Temperatures of zones and chips, and what heat did to the processors."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples import host
from lockstep.collector.sources.host import thermal
from lockstep.collector.sources.host.thermal import ThermalZones
from lockstep.collector.sources.host.thermal_throttle import ThermalThrottles

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


@pytest.fixture
def chip(machine):
    """A chip with one sensor below the devices, and its link in the class."""

    def add(number: int, name: str, label: str | None, milli: str, below: str = "pci") -> None:
        folder = machine.sys / "devices" / below / f"hwmon{number}"
        machine.file(folder / "name", f"{name}\n")
        machine.file(folder / "temp1_input", f"{milli}\n")
        if label is not None:
            machine.file(folder / "temp1_label", f"{label}\n")
        links = machine.sys / "class/hwmon"
        links.mkdir(parents=True, exist_ok=True)
        (links / folder.name).symlink_to(folder)

    return add


def temperatures(machine) -> dict:
    reading = ThermalZones(machine.sys).read()
    return {sample.labels: sample.value for sample in host.collect_temperatures(reading)}


def test_chips_stand_beside_zones_with_their_labels(machine, chip):
    machine.host()
    chip(0, "nvme", "Composite", "45850")
    chip(1, "nvme", "Composite", "39000")
    chip(2, "jc42", None, "-1500")

    assert {
        ("0", "x86_pkg_temp"): 61.5,
        ("hwmon0/temp1", "nvme Composite"): 45.85,
        ("hwmon1/temp1", "nvme Composite"): 39.0,
        ("hwmon2/temp1", "jc42"): -1.5,
    } == temperatures(machine)


def test_a_zone_is_not_told_twice_and_cores_are_told_by_their_package(machine, chip):
    machine.host()
    chip(0, "x86_pkg_temp", None, "61500", below="virtual/thermal/thermal_zone0")
    chip(1, "coretemp", "Core 12", "60000")
    chip(2, "coretemp", "Package id 0", "62000")

    assert {("0", "x86_pkg_temp"): 61.5, ("hwmon2/temp1", "coretemp Package id 0"): 62.0} == (
        temperatures(machine)
    )


def test_chips_alone_are_enough_and_none_says_so(machine, chip):
    source = ThermalZones(machine.sys)
    assert not source.available()
    assert "no sensor under" in source.why_not()
    chip(0, "nvme", None, "45000")

    assert source.available()


def test_sensors_are_bounded(machine, chip, monkeypatch):
    monkeypatch.setattr(thermal, "MAX_SENSORS", 2)
    for number in range(4):
        chip(number, "coretemp", "Core 1" if number == 0 else None, "45000")

    assert [("hwmon1/temp1", "coretemp"), ("hwmon2/temp1", "coretemp")] == list(
        temperatures(machine)
    )


@PROPERTY
@given(
    file=st.sampled_from(["name", "temp1_input", "temp1_label"]), content=st.binary(max_size=100)
)
def test_what_is_no_sensor_is_counted_and_the_others_stand(machine, chip, file, content):
    if not (machine.sys / "devices").exists():
        machine.host()
        chip(0, "nvme", "Composite", "45000")
        chip(1, "nvme", "Composite", "39000")
    path = machine.sys / "devices/pci/hwmon0" / file
    whole = path.read_bytes()
    path.write_bytes(content)
    told = temperatures(machine)
    path.write_bytes(whole)

    assert (61.5, 39.0) == (told["0", "x86_pkg_temp"], told["hwmon1/temp1", "nvme Composite"])
    assert len(told) <= 3


class Processors:
    """Processors with the counts of therm_throt.c."""

    def __init__(self, machine) -> None:
        self.machine = machine
        self.folder = machine.sys / "devices/system/cpu"

    def put(self, number: int, package: int, core: int, **counts: int) -> None:
        processor = self.folder / f"cpu{number}"
        self.machine.file(processor / "topology/physical_package_id", f"{package}\n")
        self.machine.file(processor / "topology/core_id", f"{core}\n")
        for name, count in counts.items():
            self.machine.file(processor / "thermal_throttle" / name, f"{count}\n")


@pytest.fixture
def processors(machine):
    made = Processors(machine)
    for number in range(8):  # two packages of two cores of two threads
        made.put(
            number, number % 2, number // 4,
            core_throttle_count=number, core_throttle_total_time_ms=100 * number,
            package_throttle_count=10 + number, package_throttle_total_time_ms=1000,
        )  # fmt: skip
    return made


def throttles(source: ThermalThrottles) -> dict:
    return {(s.metric, *s.labels): s.value for s in host.collect_thermal_throttles(source.read())}


def test_threads_of_a_core_and_cores_of_a_package_are_counted_once(machine, processors):
    assert {
        # Cores hold processors 0 and 2, 1 and 3, 4 and 6, 5 and 7.
        (m.CPU_THERMAL_THROTTLES, "core"): 2 + 3 + 6 + 7,
        (m.CPU_THERMAL_THROTTLES, "package"): 16 + 17,
        (m.CPU_THERMAL_THROTTLED, "core"): pytest.approx(1.8),
        (m.CPU_THERMAL_THROTTLED, "package"): 2.0,
    } == throttles(ThermalThrottles(machine.sys))


def test_a_processor_that_goes_offline_and_begins_anew_never_lets_the_sum_fall(machine, processors):
    source = ThermalThrottles(machine.sys)
    before = throttles(source)
    folder = processors.folder / "cpu7/thermal_throttle"
    folder.rename(processors.folder / "away")
    (processors.folder / "cpu5/thermal_throttle/core_throttle_count").write_text("1\n")
    during = throttles(source)

    assert before[m.CPU_THERMAL_THROTTLES, "core"] + 1 == during[m.CPU_THERMAL_THROTTLES, "core"]


def test_a_kernel_that_counts_no_time_tells_counts_alone(machine):
    Processors(machine).put(0, 0, 0, core_throttle_count=4, package_throttle_count=5)

    assert {
        (m.CPU_THERMAL_THROTTLES, "core"): 4, (m.CPU_THERMAL_THROTTLES, "package"): 5
    } == throttles(ThermalThrottles(machine.sys))  # fmt: skip


def test_processors_without_counts_are_no_error(machine):
    source = ThermalThrottles(machine.sys)

    assert not source.available()
    assert "counts its thermal throttling" in source.why_not()
    with pytest.raises(SourceError, match="No such file"):
        source.read()


@pytest.mark.parametrize("path", ["thermal_throttle/core_throttle_count", "topology/core_id"])
@PROPERTY
@given(content=st.binary(max_size=100))
def test_noise_is_counted_and_the_other_processors_stand(machine, processors, path, content):
    file = processors.folder / "cpu7" / path
    whole = file.read_bytes()
    file.write_bytes(content)
    source = ThermalThrottles(machine.sys)
    reading = source.read()
    file.write_bytes(whole)

    assert reading.counts["package"] in (16 + 17, 16 + 15)
    assert reading.counts["core"] >= 2 + 3 + 6
