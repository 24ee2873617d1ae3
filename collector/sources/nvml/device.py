"""One GPU and its MIG devices, read through NVML: the fast and the slow values."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from collector.contract import metrics as m
from collector.gpu_reading import (
    CLOCK_EVENTS,
    FABRIC_HEALTH,
    FABRIC_STATE,
    FABRIC_STATUS,
    Telling,
    Values,
)
from collector.sources.nvml import binding, fields
from collector.sources.nvml.binding import FieldBatch, Gpm, Handle, NvmlError

CLOCKS = {"graphics": 0, "sm": 1, "mem": 2, "video": 3}
"""nvmlClockType_t."""
THRESHOLDS = {"shutdown": 0, "slowdown": 1, "mem_max": 2, "gpu_max": 3}
"""nvmlTemperatureThresholds_t."""
ECC_TYPES = ("corrected", "uncorrected")
ECC_COUNTERS = ("volatile", "aggregate")
ECC_LOCATIONS = {"l1": 0, "l2": 1, "dram": 2, "register": 3, "texture": 5, "cbu": 6, "sram": 7}
"""nvmlMemoryLocation_t; texture is the shared memory's."""
BANKS = ("max", "high", "partial", "low", "none")
ACTIVITY = {
    1: m.GPU_ENGINE_ACTIVE, 2: m.GPU_SM_ACTIVE, 3: m.GPU_SM_OCCUPANCY, 5: m.GPU_TENSOR_ACTIVE,
    10: m.GPU_DRAM_ACTIVE, 11: m.GPU_FP64_ACTIVE, 12: m.GPU_FP32_ACTIVE, 13: m.GPU_FP16_ACTIVE,
}  # fmt: skip
"""Metrics of nvmlGpmMetricsGet."""
_MEGA, _PERCENT, _MILLI = 10**6, 100, 1000


class GpuLostError(Exception):
    """The GPU is off the bus or wants a reset; nothing else it says counts."""


class LibraryGoneError(Exception):
    """The driver was unloaded or reloaded: handles are worth nothing any more."""


class Mig:
    """A MIG device: its handle, its identity, its activity."""

    def __init__(self, handle: Handle, uuid: str, info: Mapping[str, str], gpm: Gpm | None) -> None:
        self.handle, self.uuid, self.info, self.gpm = handle, uuid, info, gpm


class Device:
    """One GPU. `failures` counts what went wrong in the last reading, by NVML's word.

    Raises:
        GpuLostError: There is no handle for it.
        LibraryGoneError: The driver is not there any more.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.failures: Counter[str] = Counter()
        self.handle = self._required("nvmlDeviceGetHandleByIndex", index)
        self.uuid = _text(self._required("nvmlDeviceGetUUID", self.handle))
        self.migs = [self._mig(part) for part in self._mig_handles()]
        self._gpm = None if self.migs else self._activity(None)
        self._links = self._link_count()
        self._fast = FieldBatch((*fields.FAST, *self._link_bytes()))
        self._slow = FieldBatch(fields.SLOW)
        self._per_link = FieldBatch(fields.link_fields(self._links))
        self._summed = FieldBatch(fields.summed_fields(self._links))

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a function of NVML says; None if this GPU does not have it or it failed.

        Raises:
            GpuLostError: The GPU is lost.
            LibraryGoneError: The driver is not there any more.
        """
        return self.told(lambda: binding.call(name, *arguments))

    def told(self, read: Callable[[], Any]) -> Any:
        """As `ask`, of any reading."""
        try:
            return read()
        except NvmlError as error:
            self._failed(error.code)
            return None

    def identity(self) -> dict[str, Any]:
        """Words by label of GPU_INFO and MIG_INFO, for the parent; what is not told is absent."""
        handle = self.handle
        mode = self.ask("nvmlDeviceGetMigMode", handle)
        pci = self.ask("nvmlDeviceGetPciInfo", handle)
        words = {
            "driver": self.ask("nvmlSystemGetDriverVersion"),
            "cuda": _cuda(self.ask("nvmlSystemGetCudaDriverVersion_v2")),
            "model": self.ask("nvmlDeviceGetName", handle),
            "serial": self.ask("nvmlDeviceGetSerial", handle),
            "vbios": self.ask("nvmlDeviceGetVbiosVersion", handle),
            "firmware": self.ask("nvmlDeviceGetGspFirmwareVersion", handle),
            "minor": self.ask("nvmlDeviceGetMinorNumber", handle),
            "numa": self.ask("nvmlDeviceGetNumaNodeId", handle),
            "mig_mode": None if mode is None else ("off", "on")[bool(mode[0])],
            "pci_bus_id": None if pci is None else pci.busId,
        }
        return {
            "uuid": self.uuid,
            "info": {word: _text(value) for word, value in words.items() if value is not None},
            "migs": [{"uuid": part.uuid, "info": part.info} for part in self.migs],
        }

    def changed(self) -> bool:
        """Whether another GPU, or other MIG devices, are here now."""
        handle = self.ask("nvmlDeviceGetHandleByIndex", self.index)
        if handle is None:
            return False
        uuid = self.ask("nvmlDeviceGetUUID", handle)
        parts = [self.ask("nvmlDeviceGetUUID", part) for part in self._mig_handles()]
        if uuid is None or None in parts:
            return False
        return self.uuid != _text(uuid) or [part.uuid for part in self.migs] != parts

    def fast(self) -> Values:
        """What changes every second."""
        self.failures.clear()
        said, handle = Telling(), self.handle
        self._tell_fields(said, self._fast)
        busy = self.ask("nvmlDeviceGetUtilizationRates", handle)
        if busy is not None:
            said.tell(m.GPU_UTILIZATION, busy.gpu / _PERCENT)
            said.tell(m.GPU_COPY_UTILIZATION, busy.memory / _PERCENT)
        for domain, number in CLOCKS.items():
            megahertz = self.ask("nvmlDeviceGetClockInfo", handle, number)
            said.tell(m.GPU_CLOCK, None if megahertz is None else megahertz * _MEGA, domain)
        said.tell(CLOCK_EVENTS, self.ask("nvmlDeviceGetCurrentClocksEventReasons", handle))
        said.tell(m.GPU_TEMPERATURE, self._temperature(), "gpu")
        said.tell(m.GPU_TEMPERATURE_MARGIN, self.ask("nvmlDeviceGetMarginTemperature", handle))
        said.tell(m.GPU_PERFORMANCE_STATE, self.ask("nvmlDeviceGetPerformanceState", handle))
        if m.GPU_POWER.name not in said.values:  # drivers before F186
            milliwatts = self.ask("nvmlDeviceGetPowerUsage", handle)
            said.tell(m.GPU_POWER, None if milliwatts is None else milliwatts / _MILLI)
        self._tell_memory(said, handle)
        self._tell_activity(said, self._gpm)
        return said.values

    def fast_mig(self, part: Mig) -> Values:
        """What changes every second of a MIG device."""
        said = Telling()
        self._tell_memory(said, part.handle)
        self._tell_activity(said, part.gpm)
        return said.values

    def slow(self) -> Values:
        """What hardly changes, or is dear to ask."""
        said, handle = Telling(), self.handle
        self._tell_fields(said, self._slow)
        self._tell_fields(said, self._per_link)
        self._tell_sums(said)
        for domain, number in CLOCKS.items():
            megahertz = self.ask("nvmlDeviceGetMaxClockInfo", handle, number)
            said.tell(m.GPU_CLOCK_MAX, None if megahertz is None else megahertz * _MEGA, domain)
        for limit, number in THRESHOLDS.items():
            celsius = self.ask("nvmlDeviceGetTemperatureThreshold", handle, number)
            said.tell(m.GPU_TEMPERATURE_LIMIT, celsius, limit)
        for type_, type_name in enumerate(ECC_TYPES):
            for counter, counter_name in enumerate(ECC_COUNTERS):
                for place, number in ECC_LOCATIONS.items():
                    count = self.ask(
                        "nvmlDeviceGetMemoryErrorCounter", handle, type_, counter, number
                    )
                    labels = f"{type_name}/{counter_name}/{place}"
                    said.tell(m.GPU_ECC_LOCATION_ERRORS, count, labels)
        banks = self.ask("nvmlDeviceGetRowRemapperHistogram", handle)
        for word in BANKS if banks is not None else ():
            said.tell(m.GPU_ROW_REMAP_BANKS, getattr(banks, word), word)
        over = self.told(lambda: binding.sram_threshold_exceeded(handle))
        said.tell(m.GPU_SRAM_THRESHOLD, over)
        said.tell(m.GPU_PCIE_WIDTH, self.ask("nvmlDeviceGetCurrPcieLinkWidth", handle))
        said.tell(m.GPU_PCIE_WIDTH_MAX, self.ask("nvmlDeviceGetMaxPcieLinkWidth", handle))
        said.tell(m.GPU_PCIE_GENERATION, self.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle))
        generation = self.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        said.tell(m.GPU_PCIE_GENERATION_MAX, generation)
        for link in range(self._links):
            up = self.ask("nvmlDeviceGetNvLinkState", handle, link)
            said.tell(m.GPU_NVLINK_UP, up, str(link))
        fabric = self.told(lambda: binding.fabric_info(handle))
        if fabric is not None:
            for word, value in zip(
                (FABRIC_STATE, FABRIC_STATUS, FABRIC_HEALTH), fabric, strict=True
            ):
                said.tell(word, value)
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses", handle)
        said.tell(m.GPU_PROCESSES, None if processes is None else len(processes))
        return said.values

    def _required(self, name: str, *arguments: Any) -> Any:
        try:
            return binding.call(name, *arguments)
        except NvmlError as error:
            if error.code in binding.GONE:
                raise LibraryGoneError(error.word) from error
            raise GpuLostError(error.word) from error

    def _mig_handles(self) -> Iterator[Handle]:
        mode = self.ask("nvmlDeviceGetMigMode", self.handle)
        if not mode or not mode[0]:
            return
        for place in range(self.ask("nvmlDeviceGetMaxMigDeviceCount", self.handle) or 0):
            part = self.ask("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, place)
            if part is not None:
                yield part

    def _failed(self, code: int) -> None:
        if code in binding.LOST:
            raise GpuLostError(binding.word(code))
        if code in binding.GONE:
            raise LibraryGoneError(binding.word(code))
        if code not in binding.ABSENT:
            self.failures[binding.word(code)] += 1

    def _mig(self, handle: Handle) -> Mig:
        name = _text(self.ask("nvmlDeviceGetName", handle) or "")
        instance = self.ask("nvmlDeviceGetGpuInstanceId", handle)
        compute = self.ask("nvmlDeviceGetComputeInstanceId", handle)
        info = {
            "parent": self.uuid,
            "profile": name.partition("MIG ")[2],
            "gpu_instance": "" if instance is None else str(instance),
            "compute_instance": "" if compute is None else str(compute),
        }
        uuid = self.ask("nvmlDeviceGetUUID", handle) or ""
        gpm = None if instance is None else self._activity(instance)
        return Mig(handle, uuid, info, gpm)

    def _activity(self, instance: int | None) -> Gpm | None:
        support = self.ask("nvmlGpmQueryDeviceSupport", self.handle)
        if support is None or not support.isSupportedDevice:
            return None
        gpm: Gpm | None = self.told(lambda: Gpm(self.handle, instance, ACTIVITY))
        return gpm

    def _link_count(self) -> int:
        count = 0
        for _, code, value in FieldBatch([fields.Field(fields.NVLINK_COUNT, m.GPU_NVLINK_UP)]).read(
            self.handle
        ):
            count = min(int(value), fields.MAX_LINKS) if code == binding.SUCCESS else 0
        return count

    def _link_bytes(self) -> tuple[fields.Field, ...]:
        if not self._links:
            return ()
        codes = [code for _, code, _ in FieldBatch(fields.NVLINK_FAST).read(self.handle)]
        return fields.NVLINK_5_FAST if set(codes) <= binding.ABSENT else fields.NVLINK_FAST

    def _temperature(self) -> float | None:
        celsius: float | None = self.ask("nvmlDeviceGetTemperatureV", self.handle, 0)
        if celsius is None:  # drivers before 565
            celsius = self.ask("nvmlDeviceGetTemperature", self.handle, 0)
        return celsius

    def _tell_fields(self, said: Telling, batch: FieldBatch) -> None:
        for field, code, value in self.told(lambda: list(batch.read(self.handle))) or ():
            if code == binding.SUCCESS:
                if value != binding.NOT_AVAILABLE:
                    number = _in_base_units(field, value)
                    said.tell(field.metric, number, field.labels)
            else:
                self._failed(code)

    def _tell_sums(self, said: Telling) -> None:
        told: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        for field, code, value in self.told(lambda: list(self._summed.read(self.handle))) or ():
            if code == binding.SUCCESS:
                told[field.labels] += 1
                sums[field.labels] += int(value)
            else:
                self._failed(code)
        for labels, links in told.items():
            if links == self._links:  # a sum over fewer links would look like a reset
                said.tell(m.GPU_NVLINK_ERRORS, sums[labels], labels)

    def _tell_memory(self, said: Telling, handle: Handle) -> None:
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
        if memory is None:  # drivers before 510
            memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        if memory is not None:
            said.tell(m.GPU_MEMORY_USED, memory.used)
            said.tell(m.GPU_MEMORY_FREE, memory.free)
            said.tell(m.GPU_MEMORY_RESERVED, getattr(memory, "reserved", None))
            said.tell(m.GPU_MEMORY_TOTAL, memory.total)

    def _tell_activity(self, said: Telling, gpm: Gpm | None) -> None:
        if gpm is not None:
            for number, percent in self.told(lambda: list(gpm.read())) or ():
                said.tell(ACTIVITY[number], percent / _PERCENT)


MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: sizeof | 2 << 24."""


def _in_base_units(field: fields.Field, value: float) -> float:
    if field.metric is m.GPU_NVLINK_BER:
        return fields.bit_error_ratio(int(value))
    return value if field.per == 1 else value / field.per


def _cuda(version: int | None) -> str | None:
    """12040 -> 12.4 (nvmlSystemGetCudaDriverVersion_v2: major x 1000 + minor x 10)."""
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
