"""Flight-recorder dumps of a program that may never import torch."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from lockstep.workloads.ring_file import Identity
from lockstep.workloads.sdk.warning import warn_of

Beat = Callable[[], None]


def _dump_on_request(folder: Path, run: str, rank: int) -> Beat:
    # Imports torch's core, which the program has imported by now.
    recorder = import_module("lockstep.workloads.measure.flight_recorder")
    beat: Beat = recorder.DumpOnRequest(folder, run, rank)
    return beat


class Dumps:
    """A beat of the helper thread: answers requests once torch.distributed is in use."""

    def __init__(
        self, folder: Path, who: Identity,
        make: Callable[[Path, str, int], Beat] = _dump_on_request,
    ) -> None:  # fmt: skip
        self._place = folder, who.run, who.rank
        self._make = make
        self._beat: Beat | None = None

    def __call__(self) -> None:
        """Write a dump if one was asked for since the last beat; a failure is said once."""
        try:
            if self._beat is None and _in_use():
                self._beat = self._make(*self._place)
            if self._beat is not None:
                self._beat()
        except Exception as error:  # noqa: BLE001 - the next request may be answered
            warn_of("no flight-recorder dumps", error)


def _in_use() -> bool:
    """Whether a process group was made; asked so that torch is never imported by us."""
    distributed = sys.modules.get("torch.distributed")
    is_initialized = getattr(distributed, "is_initialized", None)
    return is_initialized is not None and bool(is_initialized())
