"""Ctrl-C and SIGTERM: noted as well as raised."""

import os
import signal
import sys
from time import monotonic, sleep

import pytest

from lockstep.terminal.interrupts import INSIST_SECONDS, Interrupts, remembered

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_the_wait_at_once(number: int) -> None:
    interrupts = Interrupts()
    with interrupts.noted(), pytest.raises(KeyboardInterrupt), interrupts.heeded():
        _send(number)

    assert interrupts.came


@pytest.mark.parametrize("number", NUMBERS)
def test_it_ends_nothing_that_must_not_be_interrupted_but_the_next_wait(number: int) -> None:
    interrupts, written = Interrupts(), False
    with interrupts.noted():
        _send(number)
        written = True
        with pytest.raises(KeyboardInterrupt), interrupts.heeded():
            written = False
        _send(number)

    assert written


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_python_swallowed_is_raised_again() -> None:
    interrupts = Interrupts()
    with interrupts.noted():
        began = monotonic()
        with pytest.raises(KeyboardInterrupt), interrupts.heeded():
            _swallow_and_wait(signal.SIGINT)

    assert monotonic() - began < INSIST_SECONDS + 5


def test_what_our_parent_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts = Interrupts()
    try:
        with interrupts.noted(), interrupts.heeded():
            _send(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)

    assert not interrupts.came


def test_nothing_of_it_stays() -> None:
    numbers = (*NUMBERS, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    timer = signal.setitimer(signal.ITIMER_REAL, 100.0)
    interrupts = Interrupts()
    with interrupts.noted(), interrupts.heeded():
        pass
    left, _ = signal.setitimer(signal.ITIMER_REAL, *timer)

    assert before == [signal.getsignal(number) for number in numbers]
    assert 99 < left <= 100  # a test's own time limit, for instance
    assert not interrupts.came


def test_ctrl_c_is_remembered_where_a_library_makes_an_error_of_it() -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    try:
        with remembered() as interrupted:
            before = interrupted()
            with pytest.raises(ImportError):
                _interrupted_import()
            after = interrupted()
    finally:
        left = signal.signal(signal.SIGINT, handler)

    assert (before, after) == (False, True)
    assert left is signal.default_int_handler


def test_ctrl_c_that_python_swallowed_comes_again_and_nothing_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    hook = sys.unraisablehook
    try:
        with pytest.raises(KeyboardInterrupt), remembered() as interrupted:
            _swallow_and_wait(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, handler)

    assert interrupted()
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is hook


def _interrupted_import() -> None:
    try:
        _send(signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("multiarray failed to import") from None


def test_a_handler_of_somebody_else_stays_while_it_is_remembered() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with remembered() as interrupted:
            _send(signal.SIGINT)
            came = interrupted()
    finally:
        signal.signal(signal.SIGINT, before)

    assert not came
