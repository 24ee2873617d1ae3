"""Whether everything that a rank waited for in a step was timed; else its own time is unknown."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from workloads.recording import StepRecorder
from workloads.sdk.warning import warn

PATIENT_STEPS = 20
"""So many steps of unknown own time before it is said."""


class Waits(Protocol):
    """What times waiting in torch.distributed; see torch_waits.TorchWaits."""

    def use(self, recorder: StepRecorder) -> None:
        """Where waiting goes from now on."""

    def leave(self, recorder: StepRecorder) -> None:
        """Waiting goes there no longer."""

    def settle(self) -> None:
        """Close what has ended; to be called before a step ends."""

    def in_use(self) -> bool:
        """Whether the ranks meet in process groups of torch."""

    def untimed(self) -> str:
        """Why waiting since the last call is not known; empty if it is."""


def torch_waits() -> Waits:
    """Of a program that has imported torch.distributed."""
    waits: Waits = import_module("workloads.sdk.torch_waits").of_process()
    return waits


class Coverage:
    """Installs the timing of waits as soon as there is something to time, and judges each step.

    Args:
        world: Number of ranks that train together.
        make: What times waiting in torch; called once torch.distributed was imported.
    """

    def __init__(
        self, recorder: StepRecorder, world: int, make: Callable[[], Waits] = torch_waits
    ) -> None:
        self._recorder, self._world, self._make = recorder, world, make
        self._waits: Waits | None = None
        self._failed = ""
        self._unknown = 0
        self._any_known = False

    def look(self) -> None:
        """Install what can be installed by now; never imports torch for the program."""
        if self._waits is not None or self._failed or not _imported("torch.distributed"):
            return
        try:
            waits = self._make()
            waits.use(self._recorder)
            self._waits = waits
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._failed = f"this torch cannot be followed ({error})"

    def settle(self) -> None:
        """Close what has ended."""
        if self._waits is not None:
            self._waits.settle()

    def judge(self) -> None:
        """Say so if something in the step was not timed; to be called when it ends."""
        try:
            why = self._untimed()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            why = self._failed = f"this torch cannot be followed ({error})"
        if why:
            self._recorder.untimed()
        self._tell(why)

    def leave(self) -> None:
        """The recorder has ended."""
        if self._waits is not None:
            self._waits.leave(self._recorder)

    def _untimed(self) -> str:
        if self._failed:
            return self._failed if _initialized() else self._unmarked()
        if self._waits is None or not self._waits.in_use():
            return self._unmarked()
        return self._waits.untimed()

    def _unmarked(self) -> str:
        """Without torch's process groups only the program knows what it waits for."""
        if self._world == 1 or self._recorder.marked:
            return ""
        return "the program marks none with recorder.collective, and torch has no process group"

    def _tell(self, why: str) -> None:
        self._any_known = self._any_known or not why
        self._unknown += 1
        if self._unknown == PATIENT_STEPS and not self._any_known:
            warn(f"no wait of this rank for others could be timed, its own time is unknown: {why}")


def _imported(module: str) -> bool:
    """Whether the module has been imported to its end."""
    there = sys.modules.get(module)
    return there is not None and not getattr(there.__spec__, "_initializing", False)


def _initialized() -> bool:
    is_initialized = getattr(sys.modules.get("torch.distributed"), "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())
