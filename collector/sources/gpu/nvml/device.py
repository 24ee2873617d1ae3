"""One GPU and its MIG devices, read through NVML: the fast and the slow values."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.gpu import (
    CLOCK_EVENTS,
    FABRIC_HEALTH,
    FABRIC_STATE,
    FABRIC_STATUS,
    PROCESSES,
    Telling,
    Values,
)
from lockstep.collector.sources.gpu.nvml import binding, fields
from lockstep.collector.sources.gpu.nvml.attach import ACTIVITY, Attachment, Mig
from lockstep.collector.sources.gpu.nvml.binding import FieldBatch, Gpm, Handle
from lockstep.collector.sources.gpu.nvml.calls import Asker

CLOCKS = {"graphics": 0, "sm": 1, "mem": 2, "video": 3}
"""nvmlClockType_t."""
THRESHOLDS = {"shutdown": 0, "slowdown": 1, "mem_max": 2, "gpu_max": 3}
"""nvmlTemperatureThresholds_t."""
ECC_TYPES = ("corrected", "uncorrected")
ECC_COUNTERS = ("volatile", "aggregate")
ECC_LOCATIONS = {"l1": 0, "l2": 1, "dram": 2, "register": 3, "texture": 5, "cbu": 6, "sram": 7}
"""nvmlMemoryLocation_t; texture is the shared memory's."""
BANKS = ("max", "high", "partial", "low", "none")
MEMORY_V2 = 0x02000028
"""nvmlMemory_v2: sizeof | 2 << 24."""
_MEGA, _PERCENT, _MILLI = 10**6, 100, 1000
_NO_INSTANCE = 0xFFFFFFFF


class Device:
    """One GPU. Every reading raises GpuLostError or LibraryGoneError when that is so.

    Raises:
        GpuLostError: There is no handle for it.
        LibraryGoneError: The driver is not there any more.
    """

    def __init__(self, index: int) -> None:
        self._asker = Asker()
        self._ask, self._attempt = self._asker.ask, self._asker.attempt
        self.gpu = Attachment(index, self._asker)
        self._links = 0

    def learn(self) -> None:
        """Ask for what is not known yet of what this GPU has; before the first reading."""
        self.gpu.learn()
        self._links = self.gpu.links
        self._fast = FieldBatch((*fields.FAST, *self.gpu.link_bytes))
        self._slow = FieldBatch(fields.SLOW)
        self._per_link = FieldBatch(fields.link_fields(self._links))
        self._summed = FieldBatch(fields.summed_fields(self._links))

    def failures(self) -> dict[str, int]:
        """What failed since this was last asked, by NVML's word."""
        return self._asker.taken()

    def fast(self) -> Values:
        """What changes every second."""
        said, handle, ask = Telling(), self.gpu.handle, self._ask
        self._tell_fields(said, self._fast)
        busy = ask("nvmlDeviceGetUtilizationRates", handle)
        if busy is not None:
            said.tell(m.GPU_UTILIZATION, busy.gpu / _PERCENT)
            said.tell(m.GPU_COPY_UTILIZATION, busy.memory / _PERCENT)
        for domain, number in CLOCKS.items():
            megahertz = ask("nvmlDeviceGetClockInfo", handle, number)
            said.tell(m.GPU_CLOCK, None if megahertz is None else megahertz * _MEGA, domain)
        said.tell(CLOCK_EVENTS, ask("nvmlDeviceGetCurrentClocksEventReasons", handle))
        said.tell(m.GPU_TEMPERATURE, self._temperature(), "gpu")
        said.tell(m.GPU_TEMPERATURE_MARGIN, ask("nvmlDeviceGetMarginTemperature", handle))
        said.tell(m.GPU_PERFORMANCE_STATE, ask("nvmlDeviceGetPerformanceState", handle))
        if m.GPU_POWER.name not in said.values:  # drivers before F186
            milliwatts = ask("nvmlDeviceGetPowerUsage", handle)
            said.tell(m.GPU_POWER, None if milliwatts is None else milliwatts / _MILLI)
        self._tell_memory(said, handle)
        self._tell_activity(said, self.gpu.gpm)
        return said.values

    def fast_mig(self, part: Mig) -> Values:
        """What changes every second of a MIG device."""
        said = Telling()
        self._tell_memory(said, part.handle)
        self._tell_activity(said, part.gpm)
        return said.values

    def slow(self) -> Values:
        """What hardly changes, or is dear to ask."""
        said, handle, ask = Telling(), self.gpu.handle, self._ask
        self._tell_fields(said, self._slow)
        self._tell_fields(said, self._per_link)
        self._tell_sums(said)
        for domain, number in CLOCKS.items():
            megahertz = ask("nvmlDeviceGetMaxClockInfo", handle, number)
            said.tell(m.GPU_CLOCK_MAX, None if megahertz is None else megahertz * _MEGA, domain)
        for limit, number in THRESHOLDS.items():
            celsius = ask("nvmlDeviceGetTemperatureThreshold", handle, number)
            said.tell(m.GPU_TEMPERATURE_LIMIT, celsius, limit)
        for type_, type_name in enumerate(ECC_TYPES):
            for counter, counter_name in enumerate(ECC_COUNTERS):
                for location, number in ECC_LOCATIONS.items():
                    count = ask("nvmlDeviceGetMemoryErrorCounter", handle, type_, counter, number)
                    labels = f"{type_name}/{counter_name}/{location}"
                    said.tell(m.GPU_ECC_LOCATION_ERRORS, count, labels)
        banks = ask("nvmlDeviceGetRowRemapperHistogram", handle)
        for word in BANKS if banks is not None else ():
            said.tell(m.GPU_ROW_REMAP_BANKS, getattr(banks, word), word)
        over = self._attempt(lambda: binding.sram_threshold_exceeded(handle))
        said.tell(m.GPU_SRAM_THRESHOLD, over)
        said.tell(m.GPU_PCIE_WIDTH, ask("nvmlDeviceGetCurrPcieLinkWidth", handle))
        said.tell(m.GPU_PCIE_WIDTH_MAX, ask("nvmlDeviceGetMaxPcieLinkWidth", handle))
        said.tell(m.GPU_PCIE_GENERATION, ask("nvmlDeviceGetCurrPcieLinkGeneration", handle))
        said.tell(m.GPU_PCIE_GENERATION_MAX, ask("nvmlDeviceGetMaxPcieLinkGeneration", handle))
        for link in range(self._links):
            said.tell(m.GPU_NVLINK_UP, ask("nvmlDeviceGetNvLinkState", handle, link), str(link))
        fabric = self._attempt(lambda: binding.fabric_info(handle))
        if fabric is not None:
            words = (FABRIC_STATE, FABRIC_STATUS, FABRIC_HEALTH)
            for word, value in zip(words, fabric, strict=True):
                said.tell(word, value)
        processes = ask("nvmlDeviceGetComputeRunningProcesses", handle)
        said.tell(m.GPU_PROCESSES, None if processes is None else len(processes))
        for process in processes or ():
            said.tell(PROCESSES, 1, _process(process))
        return said.values

    def _temperature(self) -> Any:
        celsius = self._ask("nvmlDeviceGetTemperatureV", self.gpu.handle, 0)
        if celsius is None:  # drivers before 565
            celsius = self._ask("nvmlDeviceGetTemperature", self.gpu.handle, 0)
        return celsius

    def _values(self, batch: FieldBatch) -> Iterator[tuple[fields.Field, float]]:
        """Of a batch what was told; what failed is counted."""
        for field, code, value in self._attempt(lambda: list(batch.read(self.gpu.handle))) or ():
            if code != binding.SUCCESS:
                self._asker.failed(code)
            elif value != binding.NOT_AVAILABLE and math.isfinite(value):
                yield field, value

    def _tell_fields(self, said: Telling, batch: FieldBatch) -> None:
        for field, value in self._values(batch):
            said.tell(field.metric, _in_base_units(field, value), field.labels)

    def _tell_sums(self, said: Telling) -> None:
        links: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        for field, value in self._values(self._summed):
            links[field.labels] += 1
            sums[field.labels] += int(value)
        for labels, values in links.items():
            if values == self._links:  # a sum over fewer links would look like a reset
                said.tell(m.GPU_NVLINK_ERRORS, sums[labels], labels)

    def _tell_memory(self, said: Telling, handle: Handle) -> None:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle, MEMORY_V2)
        if memory is None:  # drivers before 510
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        if memory is not None:
            said.tell(m.GPU_MEMORY_USED, memory.used)
            said.tell(m.GPU_MEMORY_FREE, memory.free)
            said.tell(m.GPU_MEMORY_RESERVED, getattr(memory, "reserved", None))
            said.tell(m.GPU_MEMORY_TOTAL, memory.total)

    def _tell_activity(self, said: Telling, gpm: Gpm | None) -> None:
        if gpm is not None:
            for number, percent in self._attempt(lambda: list(gpm.read())) or ():
                said.tell(ACTIVITY[number], percent / _PERCENT)


def _in_base_units(field: fields.Field, value: float) -> float:
    if field.metric is m.GPU_NVLINK_BER:
        return fields.bit_error_ratio(int(value))
    return value if field.per == 1 else value / field.per


def _process(process: Any) -> str:
    """The key of a process under gpu_reading.PROCESSES."""
    instance = process.gpuInstanceId
    return str(process.pid) if instance == _NO_INSTANCE else f"{process.pid}/{instance}"
