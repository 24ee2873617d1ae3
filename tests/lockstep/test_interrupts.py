"""Ctrl-C and SIGTERM: noted as well as raised."""

import os
import signal
from time import monotonic, sleep

import pytest

from lockstep.interrupts import INSIST_SECONDS, Interrupts


class _Finalized:
    """Raises a signal where Python can only print what it raises."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        _send(self.number)


def _send(number: int) -> None:
    os.kill(os.getpid(), number)
    sleep(0.01)


def _swallow_and_wait(number: int) -> None:
    _Finalized(number)  # KeyboardInterrupt is printed, and forgotten
    sleep(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_raised_at_once(number: int) -> None:
    interrupts = Interrupts()
    with interrupts.noted(), pytest.raises(KeyboardInterrupt):
        _send(number)

    assert interrupts.came


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_python_swallowed_ends_the_wait_all_the_same(number: int) -> None:
    interrupts = Interrupts()
    with interrupts.noted():
        began = monotonic()
        with pytest.raises(KeyboardInterrupt), interrupts.insisted():
            _swallow_and_wait(number)

    assert monotonic() - began < INSIST_SECONDS + 5


def test_what_is_held_is_raised_when_we_wait() -> None:
    interrupts, written = Interrupts(), False
    with interrupts.noted():
        with interrupts.held():
            _send(signal.SIGINT)
            written = True
        with pytest.raises(KeyboardInterrupt), interrupts.insisted():
            sleep(30)

    assert written


def test_nothing_of_it_stays() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    interrupts = Interrupts()
    with interrupts.noted(), interrupts.insisted():
        pass

    assert before == [signal.getsignal(number) for number in numbers]
    assert (0.0, 0.0) == signal.getitimer(signal.ITIMER_REAL)
    assert not interrupts.came
