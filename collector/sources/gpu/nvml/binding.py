"""NVML through nvidia-ml-py: the only file that imports `pynvml`."""

import ctypes
import math
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pynvml

from lockstep.collector.sources.gpu.nvml.fields import Field

SUCCESS = 0
ABSENT = frozenset((
    pynvml.NVML_ERROR_INVALID_ARGUMENT,  # a field or sensor that this driver does not know yet
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_DATA,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
))  # fmt: skip
"""Codes that mean: this GPU or driver does not have the value."""
LOST = frozenset((
    pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED,
    pynvml.NVML_ERROR_GPU_NOT_FOUND,
))  # fmt: skip
"""Codes of a call to a GPU that mean: this one is lost, whatever the others do."""
GONE = frozenset((pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
"""Codes that mean: the library has to be initialised anew."""
TIMEOUT = pynvml.NVML_ERROR_TIMEOUT
XID_EVENT = pynvml.nvmlEventTypeXidCriticalError
NO_INSTANCE = 0xFFFFFFFF
"""An event's GPU or compute instance where it concerns the whole GPU."""
NOT_AVAILABLE = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE where the call itself succeeds."""

FIELD_VALUE = struct.Struct("@IIqqIIQ")
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value."""
_DOUBLE, _LONG_SIGNED, _INT_SIGNED = 0, 4, 5
_UNSIGNED_BITS = {1: 32, 6: 16}
_BATCH = 128

Handle = Any


class NvmlError(Exception):
    """A call failed; `code` is NVML's, `word` its name in lower case."""

    def __init__(self, code: int, call: str) -> None:
        self.code = code
        self.word = word(code)
        super().__init__(f"{call} failed: {self.word}")


def load(path: Path | None) -> None:
    """Load this copy of libnvidia-ml.so.1, or the loader's choice, and initialise it.

    The loader knows a library by its SONAME, so `pynvml` then gets the copy that is loaded.

    Raises:
        NvmlError: It cannot be loaded or initialised.
    """
    if path is not None:
        try:
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise NvmlError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, f"loading {path}") from error
    call("nvmlInit")


def call(name: str, *arguments: Any) -> Any:
    """A function of pynvml.

    Raises:
        NvmlError: It did not return success.
    """
    try:
        return getattr(pynvml, name)(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, name) from None
    except UnicodeDecodeError:  # a name or serial number that is none
        raise NvmlError(pynvml.NVML_ERROR_CORRUPTED_INFOROM, name) from None


def found(name: str, *arguments: Any) -> Any:
    """As `call`, but None where this GPU or driver does not have it.

    Raises:
        NvmlError: It failed.
    """
    try:
        return call(name, *arguments)
    except NvmlError as error:
        if error.code in ABSENT:
            return None
        raise


def word(code: int) -> str:
    """NVML_ERROR_GPU_IS_LOST -> gpu_is_lost."""
    return str(_WORDS.get(code, f"error_{code}"))


class FieldBatch:
    """Fields that are read together, in a ctypes array that is made once."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self._chunks: list[tuple[tuple[Field, ...], Any]] = []
        remaining = iter(fields)
        while chunk := tuple(islice(remaining, _BATCH)):
            array = (pynvml.c_nvmlFieldValue_t * len(chunk))()
            for slot, field in zip(array, chunk, strict=True):
                slot.fieldId, slot.scopeId = field.id, field.scope
            self._chunks.append((chunk, array))

    def read(self, handle: Handle) -> Iterator[tuple[Field, int, float]]:
        """(field, return code, value in the driver's unit) of each.

        Raises:
            NvmlError: The whole call failed.
        """
        function = call("_nvmlGetFunctionPointer", "nvmlDeviceGetFieldValues")
        for fields, array in self._chunks:
            code = function(handle, len(fields), array)
            if code != SUCCESS:
                raise NvmlError(code, "nvmlDeviceGetFieldValues")
            for field, slot in zip(fields, FIELD_VALUE.iter_unpack(array), strict=True):
                yield field, slot[5], _value(slot[4], slot[6])


def _value(kind: int, raw: int) -> float:
    """The union nvmlValue_t by its nvmlValueType_t; only the member's own bytes count."""
    if kind == _DOUBLE:
        return float(struct.unpack("@d", struct.pack("@Q", raw))[0])
    if kind == _INT_SIGNED:
        return int(struct.unpack("@i", struct.pack("@I", raw & 0xFFFFFFFF))[0])
    if kind == _LONG_SIGNED:
        return int(struct.unpack("@q", struct.pack("@Q", raw))[0])
    bits = _UNSIGNED_BITS.get(kind)
    return raw if bits is None else raw & (1 << bits) - 1


class Gpm:
    """Activity over the time between two samples of one GPU or MIG device (Hopper and later).

    Raises:
        NvmlError: Samples cannot be made.
    """

    def __init__(self, handle: Handle, instance: int | None, metrics: Iterable[int]) -> None:
        self._handle, self._instance = handle, instance
        self._last, self._spare = call("nvmlGpmSampleAlloc"), call("nvmlGpmSampleAlloc")
        self._first = True
        self._get = pynvml.c_nvmlGpmMetricsGet_t()
        self._get.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        for index, number in enumerate(metrics):
            self._get.metrics[index].metricId = number
            self._get.numMetrics = index + 1

    def read(self) -> Iterator[tuple[int, float]]:
        """(metric id, percent) since the call before; nothing on the first.

        Raises:
            NvmlError: A call failed.
        """
        if self._instance is None:
            call("nvmlGpmSampleGet", self._handle, self._spare)
        else:
            call("nvmlGpmMigSampleGet", self._handle, self._instance, self._spare)
        # Only now: after a sample that failed, the next one still follows the last good one.
        before, self._last, self._spare = self._last, self._spare, self._last
        if self._first:
            self._first = False
            return
        self._get.sample1, self._get.sample2 = before, self._last
        call("nvmlGpmMetricsGet", self._get)
        for metric in self._get.metrics[: self._get.numMetrics]:
            if metric.nvmlReturn == SUCCESS and math.isfinite(metric.value):
                yield metric.metricId, metric.value

    def close(self) -> None:
        """Free the samples; it cannot be read afterwards.

        Raises:
            NvmlError: A call failed.
        """
        call("nvmlGpmSampleFree", self._last)
        call("nvmlGpmSampleFree", self._spare)


def fabric_info(handle: Handle) -> tuple[int, int, int]:
    """(state, status, health mask).

    Raises:
        NvmlError: The call failed.
    """
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    info.version = pynvml.nvmlGpuFabricInfo_v2
    call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    return info.state, info.status, info.healthMask


def sram_threshold_exceeded(handle: Handle) -> int:
    """1 if the GPU's uncorrectable SRAM errors call for replacement.

    Raises:
        NvmlError: The call failed.
    """
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = pynvml.nvmlEccSramErrorStatus_v1
    call("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    return int(status.bThresholdExceeded)


_WORDS = {
    code: name.removeprefix("NVML_ERROR_").lower()
    for name, code in vars(pynvml).items()
    if name.startswith("NVML_ERROR_")
}
