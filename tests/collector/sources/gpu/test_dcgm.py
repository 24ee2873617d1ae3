"""DCGM's bindings, faked as modules: what is asked of them and what becomes of it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.dcgm import (
    COMPUTE_INSTANCE,
    DETACHED,
    GPU,
    GPU_INSTANCE,
    INSTALLED,
    LOST,
    OK,
    STALE_SECONDS,
    Dcgm,
)
from lockstep.collector.sources.gpu.precedence import GpuInventory
from lockstep.collector.sources.gpu.xid.source import Xids

VALUES = {
    54: "GPU-a", 50: "NVIDIA H100", 1: "550.54.15", 52: 3, 100: 1980, 150: 61, 155: 650.0,
    156: 123456789, 203: 97, 252: 1024, 394: 3, 112: 0x40, 270: 5, 1004: 0.5,
}  # fmt: skip
BLANK_64 = 9223372036854775792
MAX_FIELD = 1503
"""What DCGM 3 knows."""


class DCGMError(Exception):
    """As of dcgm_structs."""


class HostEngine:
    """What the fake bindings talk to."""

    def __init__(self, clock) -> None:
        self.clock = clock
        self.gpus = {0: OK}
        self.values: dict[tuple[int, int], dict[int, object]] = {(GPU, 0): dict(VALUES)}
        self.ages: dict[int, float] = {}
        self.blank, self.empty = {140}, set[int]()
        self.down = self.no_profiling = self.no_mig = False
        self.connections = 0
        self.watched: dict[str, list[int]] = {}
        self.members: dict[str, list[tuple[int, int]]] = {}
        self.hierarchy: list[SimpleNamespace] = []

    def handle(self, ipAddress: str) -> SimpleNamespace:  # noqa: N803 - as in pydcgm
        if self.down:
            raise DCGMError("DCGM_ST_CONNECTION_NOT_VALID")
        assert ipAddress == "127.0.0.1"
        self.connections += 1
        discovery = SimpleNamespace(
            GetAllGpuIds=lambda: list(self.gpus), GetGpuStatus=lambda gpu: self.gpus[gpu]
        )
        fields = SimpleNamespace(GetFieldById=lambda one: one if one <= MAX_FIELD else None)
        system = SimpleNamespace(
            discovery=discovery, fields=fields, UpdateAllFields=lambda _wait: None
        )
        return SimpleNamespace(GetSystem=lambda: system, handle=self)

    def group(self, handle: object, groupName: str, groupType: object) -> SimpleNamespace:  # noqa: N803
        members = self.members[groupName] = []

        def watch(fields: list[int], *_: object) -> None:
            if self.no_profiling and 1004 in fields:
                raise DCGMError("DCGM_ST_REQUIRES_ROOT")
            self.watched[groupName] = list(fields)

        return SimpleNamespace(
            AddEntity=lambda kind, number: members.append((kind, number)),
            samples=SimpleNamespace(
                WatchFields=watch, GetLatest_v2=lambda fields: self.latest(members, fields)
            ),
        )

    def latest(self, members: list[tuple[int, int]], fields: list[int]) -> SimpleNamespace:
        if self.down:
            raise DCGMError("DCGM_ST_CONNECTION_NOT_VALID")
        told: dict[int, dict[int, dict[int, SimpleNamespace]]] = {}
        for kind, number in members:
            values = self.values.get((kind, number), {}) | {140: BLANK_64}
            told.setdefault(kind, {})[number] = {
                field: self.series(field, values[field]) for field in fields if field in values
            }
        return SimpleNamespace(values=told)

    def series(self, field: int, value: object) -> SimpleNamespace:
        ts = round((self.clock.unix - self.ages.get(field, 0.5)) * 1e6)
        one = SimpleNamespace(value=value, ts=ts, isBlank=field in self.blank)
        return SimpleNamespace(values=[] if field in self.empty else [one])

    def instances(self, _handle: object) -> SimpleNamespace:
        if self.no_mig:
            raise DCGMError("DCGM_ST_NOT_SUPPORTED")
        return SimpleNamespace(count=len(self.hierarchy), entityList=self.hierarchy)

    def divide(self, kind: int, number: int, gpu_instance: int, compute: int = -1) -> None:
        info = SimpleNamespace(
            gpuUuid=b"GPU-a", nvmlGpuIndex=3, nvmlInstanceId=gpu_instance,
            nvmlComputeInstanceId=compute, nvmlProfileSlices=1,
        )  # fmt: skip
        entity = SimpleNamespace(entityGroupId=kind, entityId=number)
        self.hierarchy.append(SimpleNamespace(entity=entity, info=info))


@pytest.fixture
def engine(monkeypatch, clock):
    fake = HostEngine(clock)
    pydcgm, structs = ModuleType("pydcgm"), ModuleType("dcgm_structs")
    pydcgm.DcgmHandle = fake.handle
    pydcgm.DcgmGroup = fake.group
    pydcgm.DcgmFieldGroup = lambda _handle, _name, numbers: list(numbers)
    structs.DCGM_GROUP_EMPTY = 1
    structs.DCGMError = DCGMError
    agent = ModuleType("dcgm_agent")
    agent.dcgmGetGpuInstanceHierarchy = fake.instances
    for module in (pydcgm, structs, agent):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return fake


@pytest.fixture
def source(engine, clock):
    return Dcgm(clock)


def told(reading) -> dict:
    return {(s.metric.name, s.labels): s.value for s in collect(reading)}


WHO = ("3", "GPU-a")


def test_both_install_paths_are_looked_at(tmp_path, clock):
    assert [str(path) for path in INSTALLED] == [
        "/usr/share/datacenter-gpu-manager-4/bindings/python3",
        "/usr/local/dcgm/bindings/python3",
    ]
    source = Dcgm(clock, [tmp_path / "4", tmp_path / "3"])
    assert not source.available()
    assert str(tmp_path / "4") in source.why_not()
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "pydcgm.py").write_text("")
    assert source.available()  # without restart


def test_values_are_in_base_units_and_blank_ones_absent(engine, source):
    reading = source.read()
    values = told(reading)

    assert values[m.GPU_CLOCK.name, (*WHO, "sm")] == 1.98e9
    assert values[m.GPU_POWER.name, WHO] == 650
    assert values[m.GPU_ENERGY.name, WHO] == 123456.789
    assert values[m.GPU_MEMORY_USED.name, WHO] == 1 << 30
    assert values[m.GPU_REMAPPED_ROWS.name, (*WHO, "correctable")] == 3
    assert values[m.GPU_CLOCK_EVENT_ACTIVE.name, (*WHO, "hw_thermal")] == 1
    assert values[m.GPU_TENSOR_ACTIVE.name, WHO] == 0.5
    assert (m.GPU_TEMPERATURE.name, (*WHO, "memory")) not in values
    assert (m.GPU_PRESENT.name, ()) in values
    assert () == reading.rejected


def test_fields_that_an_older_dcgm_does_not_know_are_not_asked_for(engine, source):
    source.read()
    watched = {field for fields in engine.watched.values() for field in fields}

    assert {100, 112, 54, 174, 1424} <= watched
    assert max(watched) <= MAX_FIELD


def test_a_value_that_was_not_renewed_is_absent_and_counted(engine, source):
    engine.ages = {150: STALE_SECONDS + 0.5, 54: 3600, 50: 3600, 52: 3600, 203: -3600}
    reading = source.read()
    values = told(reading)

    assert values[m.GPU_CLOCK.name, (*WHO, "sm")] == 1.98e9
    assert (m.GPU_TEMPERATURE.name, (*WHO, "gpu")) not in values
    assert (m.GPU_UTILIZATION.name, WHO) not in values  # of a clock that was set back
    assert [(one.reason, one.message) for one in reading.rejected] == [
        ("stale", "GPU 0: 2 values are older than 2 s")
    ]


def test_a_field_without_any_value_yet_leaves_the_others(engine, source):
    engine.empty = {150}
    values = told(source.read())

    assert (m.GPU_TEMPERATURE.name, (*WHO, "gpu")) not in values
    assert values[m.GPU_POWER.name, WHO] == 650


def test_nothing_fresh_of_a_gpu_says_nothing_of_it(engine, source):
    engine.ages = dict.fromkeys(VALUES, 60.0)
    reading = source.read()

    assert () == reading.gpus
    assert ["stale", "no_data"] == [one.reason for one in reading.rejected]


@pytest.mark.parametrize("state", [LOST, DETACHED])
def test_a_lost_gpu_is_not_up_and_leaves_no_stale_value(engine, source, state):
    engine.gpus[1] = OK
    engine.values[GPU, 1] = VALUES | {54: "GPU-b", 52: 4}
    assert [True, True] == [gpu.up for gpu in source.read().gpus]
    engine.gpus[1] = state
    values = told(source.read())

    assert (1, 0) == (values[m.GPU_UP.name, WHO], values[m.GPU_UP.name, ("4", "GPU-b")])
    assert {m.GPU_UP.name, m.GPU_STALLED.name} == {
        name for name, labels in values if labels[1:2] == ("GPU-b",)
    }
    assert 1 == values[m.GPU_PRESENT.name, ()]
    assert 1 == engine.connections


@pytest.mark.parametrize("state", [OK, LOST, DETACHED])
@pytest.mark.parametrize("age", [0.5, 30.0])
def test_the_last_xid_of_a_gpu_is_told_once_though_it_is_lost_by_then(engine, clock, state, age):
    """DCGM stamps it with the time of the event, which may be long before a reading."""
    bus = "0000:18:00.0"
    engine.values[GPU, 0] |= {230: 0, 57: "00000000:18:00.0"}
    inventory = GpuInventory()
    source = inventory.watching(Dcgm(clock))
    xids = Xids(clock, None, list, inventory.gpus, inventory.source)
    source.read()
    xids.read()
    engine.values[GPU, 0][230], engine.ages, engine.gpus[0] = 79, {230: age}, state
    counted = []
    for _ in range(3):
        source.read()
        counted.append(
            {(key.pci_bus_id, key.xid): count for key, count in xids.read().xids.items()}
        )
        clock.sleep(30)
        engine.ages[230] += 30

    assert [{(bus, "79"): 1}] * 3 == counted


def test_a_gpu_that_was_lost_before_we_came_is_not_up_either(engine, source):
    engine.gpus = {0: OK, 1: LOST}
    reading = source.read()

    assert [True, False] == [gpu.up for gpu in reading.gpus]
    assert (GPU, 1) not in [one for members in engine.members.values() for one in members]


def test_a_gpu_that_comes_is_watched_without_an_error(engine, source):
    source.read()
    engine.gpus[1] = OK
    engine.values[GPU, 1] = VALUES | {54: "GPU-b", 52: 4}
    reading = source.read()

    assert ["GPU-a", "GPU-b"] == [gpu.uuid for gpu in reading.gpus]
    assert () == reading.rejected
    assert len(engine.members) == len(set(engine.members)) == 4  # no name twice


def test_one_connection_serves_all_readings_and_is_made_anew_when_lost(engine, source):
    source.read()
    source.read()
    assert engine.connections == 1
    engine.down = True
    for _ in range(2):
        with pytest.raises(SourceError, match="CONNECTION_NOT_VALID"):
            source.read()
    engine.down = False

    assert len(source.read().gpus) == 1
    assert engine.connections == 2


def test_where_profiling_is_refused_the_rest_stands(engine, source):
    engine.no_profiling = True
    first, second = source.read(), source.read()

    assert (m.GPU_CLOCK.name, (*WHO, "sm")) in told(first)
    assert (m.GPU_TENSOR_ACTIVE.name, WHO) not in told(first)
    assert ["profiling"] == [one.reason for one in first.rejected]
    assert () == second.rejected


def test_a_mig_device_has_its_identity_memory_and_activity(engine, source):
    engine.divide(GPU_INSTANCE, 0, 7)
    engine.divide(COMPUTE_INSTANCE, 0, 7, 0)
    engine.values[GPU_INSTANCE, 0] = {50: "1g.10gb", 252: 512, 1004: 0.25, 150: 99}
    values = told(source.read())
    who = ("3", "GPU-a/gi7")

    assert values[m.MIG_INFO.name, (*who, "GPU-a", "1g.10gb", "7", "0")] == 1
    assert values[m.GPU_MEMORY_USED.name, who] == 512 << 20
    assert values[m.GPU_TENSOR_ACTIVE.name, who] == 0.25
    assert (m.GPU_TEMPERATURE.name, (*who, "gpu")) not in values  # it is the parent's


def test_a_divided_gpu_instance_shows_its_compute_instances(engine, source):
    engine.divide(GPU_INSTANCE, 0, 7)
    engine.divide(COMPUTE_INSTANCE, 0, 7, 0)
    engine.divide(COMPUTE_INSTANCE, 1, 7, 1)
    reading = source.read()

    assert ["GPU-a", "GPU-a/gi7", "GPU-a/gi7/ci0", "GPU-a/gi7/ci1"] == [
        gpu.uuid for gpu in reading.gpus
    ]
    assert ["", "0", "1"] == [gpu.info["compute_instance"] for gpu in reading.gpus[1:]]
    assert "1g" == reading.gpus[1].info["profile"]


def test_other_mig_devices_are_seen_within_five_seconds(engine, source, clock):
    source.read()
    engine.divide(GPU_INSTANCE, 0, 7)
    assert 1 == len(source.read().gpus)
    clock.sleep(5)

    assert ["GPU-a", "GPU-a/gi7"] == [gpu.uuid for gpu in source.read().gpus]


def test_a_dcgm_that_tells_no_mig_devices_tells_the_rest(engine, source):
    engine.no_mig = True
    reading = source.read()

    assert ["mig"] == [one.reason for one in reading.rejected]
    assert 1 == len(reading.gpus)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from([100, 112, 156, 170, 174, 252, 1004]),
    st.one_of(st.integers(), st.floats(), st.text(max_size=5), st.none(), st.binary(max_size=3)),
)
def test_any_value_of_any_field_leaves_the_others(engine, clock, field, value):
    engine.values[GPU, 0] = VALUES | {field: value}
    values = told(Dcgm(clock).read())

    assert values[m.GPU_TEMPERATURE.name, (*WHO, "gpu")] == 61
    assert all(number == number and abs(number) != float("inf") for number in values.values())


def test_bindings_that_do_not_load_are_named(tmp_path, monkeypatch, clock):
    (tmp_path / "pydcgm.py").write_text("raise OSError('libdcgm.so.4: cannot open')")
    monkeypatch.setattr(sys, "path", list(sys.path))

    with pytest.raises(SourceError, match=r"libdcgm\.so\.4: cannot open"):
        Dcgm(clock, [tmp_path]).read()
