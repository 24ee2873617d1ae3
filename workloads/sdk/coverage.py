"""Whether everything that a rank waited for in a step was timed; else its own time is unknown."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.sdk.warning import pass_on, warn

# The number of steps without a collective after which the timing itself is doubted.

SILENT_STEPS = 100
"""So many steps in a row without a collective are believed to be what they look like.

Accumulation of gradients and averaging of weights now and then (local SGD, DiLoCo) leave up to some
hundred steps between two meetings. Beyond that, ranks more likely meet by means that nobody times.
"""


class Silence:
    """Steps in a row in which this rank met nobody; doubted until it has met somebody."""

    def __init__(self) -> None:
        self._steps = SILENT_STEPS

    def lasts(self, *, broken: bool) -> bool:
        """Whether it is too long with one more step, in which somebody was met or nobody was."""
        self._steps = 0 if broken else self._steps + 1
        return self._steps > SILENT_STEPS


PATIENT_STEPS = 20
"""So many steps of unknown own time, and none that is known, before it is said.

The first ones are often unknown because they make groups and models; a program whose waits cannot
be timed is to be told within its first minute.
"""


class Waits(Protocol):
    """What times waiting in torch.distributed; see torch_waits.TorchWaits."""

    def use(self, recorder: StepRecorder) -> None:
        """Where waiting goes from now on; it goes nowhere if this raises."""

    def leave(self, recorder: StepRecorder) -> None:
        """Waiting goes there no longer."""

    def settle(self) -> None:
        """Close what has ended; to be called before a step ends."""

    def in_use(self) -> bool:
        """Whether the ranks meet in process groups of torch."""

    def untimed(self) -> str:
        """Why waiting since the last call is not known; empty if it is."""


class Data(Protocol):
    """What times waiting for torch's DataLoader; see torch_data.TorchData."""

    def use(self, recorder: StepRecorder) -> None:
        """Where the calling thread's time goes from now on."""

    def follow(self, recorder: StepRecorder) -> None:
        """The calling thread is the one that trains, if the time still goes there."""

    def leave(self, recorder: StepRecorder) -> None:
        """Time goes there no longer."""


def torch_waits() -> Waits:
    """Of a program that has imported torch.distributed."""
    waits: Waits = _of_process("waits")()
    return waits


def torch_data() -> Data:
    """Of a program that has imported torch.utils.data."""
    data: Data = _of_process("data")()
    return data


def held(module: str) -> Callable[[], Any]:
    """`of_process` of a module that is imported now, or what raises why it cannot be."""
    try:
        return _of_process(module)
    except Exception as error:  # noqa: BLE001 - the program must not end because of us
        reason = error

        def unfit() -> Any:
            raise reason

        return unfit


def _of_process(module: str) -> Callable[[], Any]:
    make: Callable[[], Any] = import_module(f"lockstep.workloads.sdk.pytorch.{module}").of_process
    return make


class Coverage:
    """Installs the timing of waits as soon as there is something to time, and judges each step.

    Nothing that goes wrong with it reaches the program.

    Args:
        world: Number of ranks that train together.
        make: What times waiting in torch; called once torch.distributed was imported.
        make_data: What times waiting for data, likewise.
    """

    def __init__(
        self, recorder: StepRecorder, world: int, make: Callable[[], Waits] = torch_waits,
        make_data: Callable[[], Data] = torch_data,
    ) -> None:  # fmt: skip
        self._recorder, self._world = recorder, world
        self._make, self._make_data = make, make_data
        self._waits: Waits | None = None
        self._data: Data | None = None
        self._failed = ""
        self._data_failed = False
        self._silence = Silence()
        self._unknown = 0
        self._any_known = False

    def look(self) -> None:
        """Install what can be installed by now; never imports torch for the program."""
        self._look_for_data()
        if self._waits is not None or self._failed or not _imported("torch.distributed"):
            return
        try:
            waits = self._make()
            waits.use(self._recorder)
            self._waits = waits
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._fail(error)

    def settle(self) -> None:
        """Close what has ended."""
        try:
            if self._waits is not None:
                self._waits.settle()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._fail(error)

    def judge(self) -> None:
        """Say so if something in the step was not timed; to be called when it ends."""
        try:
            why = self._untimed()
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            self._fail(error)
            why = self._failed
        if why:
            self._recorder.untimed()
        self._tell(why)

    def leave(self) -> None:
        """The recorder has ended."""
        for each in (self._waits, self._data):
            try:
                if each is not None:
                    each.leave(self._recorder)
            except Exception as error:  # noqa: BLE001 - the program must not end because of us
                self._fail(error)

    def _look_for_data(self) -> None:
        if self._data_failed:
            return
        try:
            if self._data is not None:
                self._data.follow(self._recorder)
            elif _imported("torch.utils.data"):
                data = self._make_data()
                data.use(self._recorder)
                self._data = data
        except Exception as error:  # noqa: BLE001 - the program must not end because of us
            pass_on(error)
            self._data_failed = True
            warn(f"waiting in torch's DataLoader is not timed: {error}")

    def _fail(self, error: Exception) -> None:
        pass_on(error)
        self._failed = f"this torch cannot be followed ({error})"

    def _untimed(self) -> str:
        marked = self._recorder.marked > 0
        silent = self._silence.lasts(broken=marked)
        if self._failed:
            return self._failed if _initialized() else self._unmarked(silent=silent)
        if self._waits is None or not self._waits.in_use():
            return self._unmarked(silent=silent)
        return self._waits.untimed()

    def _unmarked(self, *, silent: bool) -> str:
        """Without torch's process groups only the program knows what it waits for."""
        if self._world == 1 or not silent:
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
