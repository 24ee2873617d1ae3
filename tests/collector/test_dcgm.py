"""DCGM's bindings, faked as modules: what is asked of them and what becomes of it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from collector.collectors.gpu import collect
from collector.contract import metrics as m
from collector.reading import SourceError
from collector.sources.dcgm import INSTALLED, Dcgm


class Value(SimpleNamespace):
    """As dcgm_field_helpers.DcgmFieldValue."""


class HostEngine:
    """What the fake bindings talk to."""

    def __init__(self) -> None:
        self.gpus = [0, 1]
        self.values: dict[int, object] = {
            54: "GPU-a", 50: "NVIDIA H100", 1: "550.54.15", 100: 1980, 150: 61, 155: 650.0,
            156: 123456789, 203: 97, 252: 1024, 394: 3, 112: 0x40, 270: 5, 1004: 0.5,
        }  # fmt: skip
        self.blank = {140}
        self.down = False
        self.connections = 0
        self.watched: list[int] = []

    def handle(self, ipAddress: str) -> SimpleNamespace:  # noqa: N803 - as in pydcgm
        if self.down:
            raise RuntimeError("DCGM_ST_CONNECTION_NOT_VALID")
        assert ipAddress == "127.0.0.1"
        self.connections += 1
        discovery = SimpleNamespace(GetAllSupportedGpuIds=lambda: list(self.gpus))
        system = SimpleNamespace(discovery=discovery, UpdateAllFields=lambda _wait: None)
        return SimpleNamespace(GetSystem=lambda: system)

    def group(self, handle: object, groupName: str, groupType: object) -> SimpleNamespace:  # noqa: N803
        samples = SimpleNamespace(
            WatchFields=lambda fields, *_: self.watched.extend(fields), GetLatest=self.latest
        )
        return SimpleNamespace(AddGpu=lambda _gpu: None, samples=samples)

    def latest(self, _fields: object) -> SimpleNamespace:
        if self.down:
            raise RuntimeError("DCGM_ST_CONNECTION_NOT_VALID")
        told = {
            number: SimpleNamespace(values=[Value(value=value, isBlank=number in self.blank)])
            for number, value in [*self.values.items(), (140, 9223372036854775792)]
        }
        return SimpleNamespace(values=dict.fromkeys(self.gpus[:1], told))


@pytest.fixture
def engine(monkeypatch):
    fake = HostEngine()
    pydcgm = ModuleType("pydcgm")
    pydcgm.DcgmHandle = fake.handle
    pydcgm.DcgmGroup = fake.group
    pydcgm.DcgmFieldGroup = lambda _handle, _name, numbers: list(numbers)
    structs = ModuleType("dcgm_structs")
    structs.DCGM_GROUP_EMPTY = 1
    for module in (pydcgm, structs, ModuleType("dcgm_fields")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return fake


def test_both_install_paths_are_looked_at(tmp_path):
    assert [str(path) for path in INSTALLED] == [
        "/usr/share/datacenter-gpu-manager-4/bindings/python3",
        "/usr/local/dcgm/bindings/python3",
    ]
    source = Dcgm([tmp_path / "4", tmp_path / "3"])
    assert not source.available()
    (tmp_path / "3").mkdir()
    (tmp_path / "3" / "pydcgm.py").write_text("")
    assert source.available()  # without restart


def test_values_are_in_base_units_and_blank_ones_absent(engine):
    reading = Dcgm().read()
    told = {(s.metric.name, s.labels): s.value for s in collect(reading)}
    who = ("0", "GPU-a")

    assert told[m.GPU_CLOCK.name, (*who, "sm")] == 1.98e9
    assert told[m.GPU_POWER.name, who] == 650
    assert told[m.GPU_ENERGY.name, who] == 123456.789
    assert told[m.GPU_MEMORY_USED.name, who] == 1 << 30
    assert told[m.GPU_REMAPPED_ROWS.name, (*who, "correctable")] == 3
    assert told[m.GPU_CLOCK_EVENT_ACTIVE.name, (*who, "hw_thermal")] == 1
    assert (m.GPU_TEMPERATURE.name, (*who, "memory")) not in told
    assert [one.reason for one in reading.rejected] == ["no_data"]
    assert {100, 112, 54} <= set(engine.watched)


def test_one_connection_serves_all_readings_and_is_made_anew_when_lost(engine):
    source = Dcgm()
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


def test_other_gpus_make_another_session(engine):
    source = Dcgm()
    source.read()
    engine.gpus = [0]
    with pytest.raises(SourceError, match="have changed"):
        source.read()

    assert len(source.read().gpus) == 1


def test_bindings_that_do_not_load_are_named(tmp_path, monkeypatch):
    (tmp_path / "pydcgm.py").write_text("raise OSError('libdcgm.so.4: cannot open')")
    monkeypatch.setattr(sys, "path", list(sys.path))

    with pytest.raises(SourceError, match=r"libdcgm\.so\.4: cannot open"):
        Dcgm([tmp_path]).read()
