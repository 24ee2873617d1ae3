"""What is found out about a GPU once: its handle, who it is, its MIG devices, its links."""

from functools import partial
from typing import Any

from lockstep.collector.contract import metrics as m
from lockstep.collector.sources.gpu.nvml import binding, fields
from lockstep.collector.sources.gpu.nvml.binding import FieldBatch, Gpm, Handle, NvmlError
from lockstep.collector.sources.gpu.nvml.calls import (
    Asker,
    GpuLostError,
    Known,
    LibraryGoneError,
    text,
)

ACTIVITY = {
    1: m.GPU_ENGINE_ACTIVE, 2: m.GPU_SM_ACTIVE, 3: m.GPU_SM_OCCUPANCY, 5: m.GPU_TENSOR_ACTIVE,
    10: m.GPU_DRAM_ACTIVE, 11: m.GPU_FP64_ACTIVE, 12: m.GPU_FP32_ACTIVE, 13: m.GPU_FP16_ACTIVE,
}  # fmt: skip
"""Metrics of nvmlGpmMetricsGet."""
WORDS = {
    "model": "nvmlDeviceGetName", "serial": "nvmlDeviceGetSerial",
    "vbios": "nvmlDeviceGetVbiosVersion", "firmware": "nvmlDeviceGetGspFirmwareVersion",
    "minor": "nvmlDeviceGetMinorNumber", "numa": "nvmlDeviceGetNumaNodeId",
}  # fmt: skip
"""Labels of GPU_INFO that a function of NVML tells as they are."""
_INSTANCES = {
    "gpu_instance": "nvmlDeviceGetGpuInstanceId",
    "compute_instance": "nvmlDeviceGetComputeInstanceId",
}


class Mig:
    """A MIG device."""

    def __init__(self, handle: Handle, uuid: str, parent: "Attachment") -> None:
        self.handle, self.uuid = handle, uuid
        self._parent = parent
        self._known = Known(parent.asker)

    def learn(self) -> None:
        """Ask for what is not known yet."""
        known = self._known
        known.learn("name", partial(binding.call, "nvmlDeviceGetName", self.handle))
        for label, name in _INSTANCES.items():
            known.learn(label, partial(binding.call, name, self.handle))
        instance = known.get("gpu_instance")
        if instance is not None:
            known.learn("gpm", partial(self._parent.activity, instance))

    @property
    def gpm(self) -> Gpm | None:
        """Its activity, if that can be told."""
        gpm: Gpm | None = self._known.get("gpm")
        return gpm

    @property
    def info(self) -> dict[str, str]:
        """Words by label of MIG_INFO."""
        profile = text(self._known.get("name") or "").partition("MIG ")[2]
        return {"parent": self._parent.uuid, "profile": profile} | self._known.words(*_INSTANCES)


class Attachment:
    """One GPU. What fails is counted and asked again with every `learn`; the rest stands.

    Raises:
        GpuLostError: It has no handle or no uuid now.
        LibraryGoneError: The driver is not there any more.
    """

    def __init__(self, index: int, asker: Asker) -> None:
        self.index, self.asker = index, asker
        self.handle = _required("nvmlDeviceGetHandleByIndex", index)
        self.uuid = text(_required("nvmlDeviceGetUUID", self.handle))
        self._known = Known(asker)
        self._parts = asker.attempt(self._read_parts)
        _, parts = self._parts or (None, [])
        self.migs = [Mig(handle, uuid, self) for handle, uuid in parts]

    def learn(self) -> None:
        """Ask for what is not known yet."""
        known, handle = self._known, self.handle
        known.learn("driver", partial(binding.call, "nvmlSystemGetDriverVersion"))
        known.learn("cuda", _cuda)
        known.learn("pci_bus_id", lambda: binding.call("nvmlDeviceGetPciInfo", handle).busId)
        for label, name in WORDS.items():
            known.learn(label, partial(binding.call, name, handle))
        known.learn("links", self._count_links)
        if self.links:
            known.learn("link_bytes", self._find_link_bytes)
        for part in self.migs:
            part.learn()
        if not self.migs:
            known.learn("gpm", partial(self.activity, None))

    @property
    def links(self) -> int:
        """NVLinks; 0 while that is not known."""
        return self._known.get("links") or 0

    @property
    def link_bytes(self) -> tuple[fields.Field, ...]:
        """Fields that tell the traffic on all links; none while that is not known."""
        return self._known.get("link_bytes") or ()

    @property
    def gpm(self) -> Gpm | None:
        """Its activity, if that can be told of the GPU as a whole."""
        gpm: Gpm | None = self._known.get("gpm")
        return gpm

    def identity(self) -> dict[str, Any]:
        """Words by label of GPU_INFO and MIG_INFO, for the parent; what is not told is absent."""
        info = self._known.words("driver", "cuda", "pci_bus_id", *WORDS)
        mode, _ = self._parts or (None, [])
        if mode is not None:
            info["mig_mode"] = ("off", "on")[bool(mode)]
        migs = [{"uuid": part.uuid, "info": part.info} for part in self.migs]
        return {"uuid": self.uuid, "info": info, "migs": migs}

    def changed(self) -> bool:
        """Whether another GPU, or other MIG devices, are here now; not if that cannot be told."""
        handle = self.asker.ask("nvmlDeviceGetHandleByIndex", self.index)
        uuid = None if handle is None else self.asker.ask("nvmlDeviceGetUUID", handle)
        if uuid is None:
            return False
        now = self.asker.attempt(self._read_parts)
        return text(uuid) != self.uuid or (now is not None and _named(now) != _named(self._parts))

    def activity(self, instance: int | None) -> Gpm | None:
        """What tells the activity of the GPU or of one of its instances, where that is possible.

        Raises:
            NvmlError: It failed.
        """
        support = binding.found("nvmlGpmQueryDeviceSupport", self.handle)
        if support is None or not support.isSupportedDevice:
            return None
        return Gpm(self.handle, instance, ACTIVITY)

    def close(self) -> dict[str, int]:
        """Give back what NVML keeps for it; what failed, by NVML's word."""
        failed: dict[str, int] = {}
        for gpm in (self.gpm, *(part.gpm for part in self.migs)):
            try:
                if gpm is not None:
                    gpm.close()
            except NvmlError as error:
                failed[error.word] = failed.get(error.word, 0) + 1
        return failed

    def _read_parts(self) -> tuple[int | None, list[tuple[Handle, str]]]:
        """(MIG mode, handle and uuid of every MIG device)."""
        mode = binding.found("nvmlDeviceGetMigMode", self.handle)
        if not mode or not mode[0]:
            return None if mode is None else mode[0], []
        count = binding.found("nvmlDeviceGetMaxMigDeviceCount", self.handle) or 0
        places = (
            binding.found("nvmlDeviceGetMigDeviceHandleByIndex", self.handle, index)
            for index in range(count)
        )
        return mode[0], [
            (part, text(binding.found("nvmlDeviceGetUUID", part) or ""))
            for part in places
            if part is not None
        ]

    def _count_links(self) -> int:
        count = FieldBatch((fields.Field(fields.NVLINK_COUNT, m.GPU_NVLINK_UP),))
        ((_, code, value),) = count.read(self.handle)
        if code != binding.SUCCESS:
            raise NvmlError(code, "the number of links")
        return min(int(value), fields.MAX_LINKS)

    def _find_link_bytes(self) -> tuple[fields.Field, ...]:
        codes = {code for _, code, _ in FieldBatch(fields.NVLINK_FAST).read(self.handle)}
        for code in codes - {binding.SUCCESS}:
            self.asker.failed(code)
        return fields.NVLINK_5_FAST if codes <= binding.ABSENT else fields.NVLINK_FAST


def _required(name: str, *arguments: Any) -> Any:
    try:
        return binding.call(name, *arguments)
    except NvmlError as error:
        if error.code in binding.GONE:
            raise LibraryGoneError(error.word) from error
        raise GpuLostError(error.word) from error


def _named(parts: tuple[int | None, list[tuple[Handle, str]]] | None) -> Any:
    """Mode and uuids: handles are made anew with every question."""
    return None if parts is None else (parts[0], [uuid for _, uuid in parts[1]])


def _cuda() -> str:
    """12040 -> 12.4 (nvmlSystemGetCudaDriverVersion_v2: major x 1000 + minor x 10)."""
    version = binding.call("nvmlSystemGetCudaDriverVersion_v2")
    return f"{version // 1000}.{version % 1000 // 10}"
