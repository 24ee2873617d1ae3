"""One GPU's readings as messages: when what is due, and what is said when it does not answer."""

import math
import time
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from lockstep.collector.sources.nvml.asking import GpuLostError, LibraryGoneError
from lockstep.collector.sources.nvml.device import Device
from lockstep.collector.sources.nvml.wire import CHANGED, FAILED
from lockstep.collector.sources.nvml.xid_watch import XidWatch


class MessageSink(Protocol):
    """Where messages go."""

    def say(self, message: Mapping[str, Any]) -> None:
        """Tell the parent."""
        ...

    def end(self, message: Mapping[str, Any], code: int) -> NoReturn:
        """Tell the parent and end the process."""
        ...


class GpuPolling:
    """Readings of one GPU."""

    def __init__(self, index: int, mouth: MessageSink, watch: XidWatch, slow_period: float) -> None:
        self._index = index
        self._mouth = mouth
        self._watch = watch
        self._slow_period = slow_period
        self._slow_at = -math.inf
        self._device: Device | None = None
        self._watched: dict[str, str] = {}

    def turn(self) -> None:
        """Read what is due and say it."""
        index, now = self._index, time.monotonic()
        message: dict[str, Any] = {"gpu": index, "at": now}
        try:
            message |= self._read(now)
        except GpuLostError as error:
            message |= {"lost": str(error), "errors": self._detach()}
        except LibraryGoneError as error:
            self._mouth.end({"failed": str(error), "message": f"GPU {index}: {error}"}, FAILED)
        except Exception as error:
            import logging  # 2 MB that only a bug needs

            log = logging.getLogger(__name__)
            log.exception("GPU %d could not be read; this is a bug", index)
            message |= {"lost": f"internal: {error!r}", "errors": self._detach()}
        self._mouth.say(message)

    def _read(self, now: float) -> dict[str, Any]:
        device = self._device
        if device is None:
            device = self._device = Device(self._index)
        elif device.gpu.changed():
            what = f"GPU {self._index} or its MIG devices"
            self._mouth.end({"changed": what}, CHANGED)
        said: dict[str, Any] = {}
        due = now - self._slow_at >= self._slow_period
        if due:
            device.learn()
            said |= device.gpu.identity()
            said["slow"] = device.slow()
        said["fast"] = device.fast()
        said["mig"] = [device.fast_mig(part) for part in device.gpu.migs]
        if due:
            self._slow_at = now
            self._watch_for_xids(device, said["info"].get("pci_bus_id"))
        return said | {"errors": device.failures()}

    def _watch_for_xids(self, device: Device, bus: str | None) -> None:
        who = {"bus": bus, "uuid": device.gpu.uuid} if bus is not None else {}
        if who != self._watched:
            self._watch.add(self._index, device.gpu.handle, who)
            self._watched = who

    def _detach(self) -> dict[str, int]:
        """Start anew with the next turn: what is known of a GPU that was reset may be wrong."""
        device, self._device = self._device, None
        self._slow_at, self._watched = -math.inf, {}
        return {} if device is None else device.gpu.close()
