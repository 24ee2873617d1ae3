"""The helper thread of a rank: its heartbeat, and its stacks on a signal. Standard library only."""

import atexit
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from lockstep.collector.contract.stacks import SIGNAL_VARIABLE, SIGNALS, signal_of, stacks_name

HEARTBEAT_SECONDS = 0.5
LONGEST_STOP_SECONDS = 5.0


class Heartbeat:
    """Calls its beats from a helper thread for as long as the process runs.

    One that fails does not stop the others, nor itself: its error is in the rank's log, once.
    """

    def __init__(self, *beats: Callable[[], None], period: float = HEARTBEAT_SECONDS) -> None:
        self._beats = beats
        self._period = period
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the thread has ended, so that the ring may be closed.

        A beat that stands still is not waited for longer than LONGEST_STOP_SECONDS.
        """
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(LONGEST_STOP_SECONDS)

    def _run(self) -> None:
        reported: set[type] = set()
        while not self._stop.wait(self._period):
            for beat in self._beats:
                try:
                    beat()
                except Exception as error:  # noqa: BLE001 - the heart beats on
                    if type(error) not in reported:
                        reported.add(type(error))
                        with suppress(Exception):  # who has closed stderr does not want to hear it
                            print(f"heartbeat: {str(error) or repr(error)}", file=sys.stderr)  # noqa: T201


# Stacks on a signal, written beside the ring, where the program's environment asks for them.
#
# faulthandler writes them from the signal's handler in C, whatever holds the GIL. A signal can end
# a call of C early that does not begin again by itself; so it is the program's choice,
# LOCKSTEP_STACK_SIGNAL=USR2, and off without it.

MAX_BYTES = 1 << 20
"""Of all answers; an answer is some kilobytes."""


class StacksOnSignal:
    """A beat of the helper thread: withdraws the offer once somebody else handles the signal."""

    def __init__(self, folder: Path, run: str, rank: int, number: int) -> None:
        self._path = folder / stacks_name(run, rank)
        self._number = number
        self._path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file: int | None = os.open(self._path, flags, 0o644)
        self._pid = os.getpid()
        faulthandler.register(number, file=self._file, all_threads=True, chain=False)
        atexit.register(self.withdraw)

    def __call__(self) -> None:
        """Look whether the signal is still ours, and keep the file small."""
        if self._file is None:
            return
        if signal.getsignal(self._number) is not signal.SIG_DFL:
            self.withdraw()
        elif os.fstat(self._file).st_size > MAX_BYTES:
            os.ftruncate(self._file, 0)

    def withdraw(self) -> None:
        """Offer nothing any more; the handler stays, as a signal may be on its way."""
        if self._file is not None and os.getpid() == self._pid:
            self._file = None
            self._path.unlink(missing_ok=True)


def stacks_on_signal(
    folder: Path, run: str, rank: int, variables: Mapping[str, str] | None = None
) -> StacksOnSignal | None:
    """What answers the signal that the environment names; None = it names none, or cannot.

    The rank goes on without in any case; its log says why.
    """
    name = (os.environ if variables is None else variables).get(SIGNAL_VARIABLE, "")
    number = signal_of(name)
    why = ""
    if not name:
        return None
    if number is None:
        why = f"{name!r} is none of {', '.join(SIGNALS)}"
    elif signal.getsignal(number) is not signal.SIG_DFL:
        why = f"the program handles {name} itself"
    else:
        try:
            return StacksOnSignal(folder, run, rank, number)
        except (OSError, RuntimeError, ValueError) as error:
            why = str(error)
    print(f"no stacks on a signal ({SIGNAL_VARIABLE}): {why}", file=sys.stderr)  # noqa: T201
    return None
