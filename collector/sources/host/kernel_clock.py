"""How far the wall clock is from its time source, as the kernel says (adjtimex(2))."""

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass

from lockstep.collector.readings.source import SourceError

UNSYNCHRONIZED = 0x40
NANOSECONDS = 0x2000
"""Bits of `status` (STA_UNSYNC, STA_NANO)."""

_LONGS = ("offset", "freq", "maxerror", "esterror")


class Timex(ctypes.Structure):
    """struct timex of Linux, 208 bytes on 64 bits; modes = 0 only reads."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in _LONGS),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 160),
    )


@dataclass(frozen=True, slots=True)
class ClockState:
    """Seconds.

    Attributes:
        offset: What is left to correct; a daemon that steers the rate alone leaves it at 0.
        max_error: The kernel's bound; grows by 0.5 ms a second while nobody corrects.
        synchronized: Somebody corrects the clock.
    """

    offset: float
    max_error: float
    synchronized: bool


class KernelClock:
    """Source of ClockState."""

    name = "kernel_clock"

    def __init__(self, ask: Callable[[], Timex] | None = None) -> None:
        self._ask = ask or adjtimex

    def available(self) -> bool:
        """Every Linux has it; a sandbox may forbid it, which is an error and said so."""
        return True

    def read(self) -> ClockState:
        """Ask the kernel.

        Raises:
            SourceError: It refused.
        """
        state = self._ask()
        unit = 1e-9 if state.status & NANOSECONDS else 1e-6
        return ClockState(
            state.offset * unit, state.maxerror * 1e-6, not state.status & UNSYNCHRONIZED
        )


def adjtimex() -> Timex:
    """The kernel's answer.

    Raises:
        SourceError: The call is forbidden here.
    """
    state = Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state)) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise SourceError("permission", f"adjtimex: {reason}")
    return state
