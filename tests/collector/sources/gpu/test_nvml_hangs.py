"""A driver that does not return: what else still comes, what is said of it, and how it ends."""

import time
from collections.abc import Callable, Iterator

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.samples.gpu import collect
from lockstep.collector.sources.gpu.nvml import process as nvml_process
from lockstep.collector.sources.gpu.nvml.source import Limits, Nvml
from tests.machine import slowness

pytestmark = pytest.mark.timed

pytest.importorskip("pynvml")
SHORT = Limits(answer=0.2, start=10.0, stall=0.4, kill=0.8, attach=1.5)
"""The same order as the real ones, sooner."""
PATIENT = Limits(answer=0.2, start=10.0, stall=5.0, kill=20.0, attach=60.0)
"""For a process that starts on a machine with other work; here only its coming back counts."""


@pytest.fixture
def source(nvml, machine, monkeypatch) -> Iterator[Nvml]:
    monkeypatch.setattr(nvml_process, "BACKOFF_SECONDS", (0.2, 2.0))
    one = Nvml(machine.proc, machine.sys, SystemClock(), limits=SHORT)
    while len(one.read().gpus) < 2:
        time.sleep(0.05)
    yield one
    nvml.close()
    one.close()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> float:
    """Seconds until it holds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.05)
    return time.monotonic() - began


def told(source: Nvml, metric: m.Metric) -> dict[str, float]:
    return {s.labels[0]: s.value for s in collect(source.read()) if s.metric is metric}


def test_the_limits_keep_the_promises():
    real = Limits()
    period = 1.0

    assert real.stall + real.answer + period <= 5  # stalled within five seconds
    assert real.answer + real.start < 2  # a reading ends before its feed's deadline
    assert real.stall < real.kill


def test_a_gpu_that_hangs_delays_no_other_and_is_marked(nvml, source):
    nvml.gpu(0).hang = 1
    until(lambda: told(source, m.GPU_STALLED) == {"0": 1, "1": 0})
    with slowness() as machine:
        began = time.monotonic()
        reading = source.read()
        after = time.monotonic() - began

    assert after < SHORT.answer * machine.factor  # nobody waits for it any more
    assert not reading.stalled
    first, second = reading.gpus
    assert (first.up, first.values, second.up) == (False, {}, True)
    assert second.values[m.GPU_POWER.name] == {"": 655.25}
    assert {s.metric for s in collect(reading) if s.labels[:1] == ("0",)} == {
        m.GPU_UP, m.GPU_STALLED,
    }  # fmt: skip


def test_a_gpu_that_hangs_is_not_called_again_until_it_returns(nvml, source):
    nvml.gpu(0).hang = 1
    until(lambda: told(source, m.GPU_STALLED)["0"] == 1)
    nvml.gpu(1).every_rc = 15  # leaves one call a reading, of the other GPU
    for _ in range(3):
        source.read()
    before = nvml.state.calls
    for _ in range(5):
        source.read()
    calls = nvml.state.calls - before
    nvml.gpu(1).every_rc = 0
    nvml.gpu(0).hang = 0
    until(lambda: told(source, m.GPU_UP) == {"0": 1, "1": 1})

    assert calls <= 10
    assert told(source, m.GPU_STALLED) == {"0": 0, "1": 0}


def test_a_hang_in_the_global_lock_stalls_the_child_which_is_killed_and_comes_back(nvml, source):
    child = source._child._process
    assert child is not None
    nvml.state.lock_hang = 1
    reasons: list[str] = []

    def killed() -> bool:
        reading = source.read()
        reasons.extend(one.reason for one in reading.rejected)
        return "killed" in reasons

    until(lambda: source.read().stalled)
    until(killed)
    code = child.poll()
    longest = 0.0
    with slowness() as machine:
        for _ in range(10):
            began = time.monotonic()
            source._limits = Limits(answer=0.1, start=0.1, stall=0.4, kill=0.8, attach=1.5)
            assert source.read().stalled
            longest = max(longest, time.monotonic() - began)
    source._limits = PATIENT
    nvml.state.lock_hang = 0
    until(lambda: told(source, m.GPU_UP) == {"0": 1, "1": 1})

    assert code is not None
    assert longest < 1.0 * machine.factor
    assert not source.read().stalled


def test_a_process_that_hangs_when_all_gpus_are_lost_is_killed_too(nvml, source):
    nvml.gpu(0).every_rc = nvml.gpu(1).every_rc = 15
    until(lambda: told(source, m.GPU_UP) == {"0": 0, "1": 0})
    nvml.state.lock_hang = 1

    until(lambda: "killed" in [one.reason for one in source.read().rejected])


def test_a_slow_gpu_is_late_but_not_stalled(nvml, source):
    nvml.gpu(0).delay_us = 2_000
    nvml.gpu(0).temperature = 77
    seen = until(
        lambda: ("0", 77) in [
            (s.labels[0], s.value) for s in collect(source.read()) if s.metric is m.GPU_TEMPERATURE
        ]
    )  # fmt: skip

    assert seen < 5
    assert told(source, m.GPU_STALLED) == {"0": 0, "1": 0}


def test_a_child_that_dies_is_replaced(nvml, source):
    assert source._child._process is not None
    source._child._process.kill()

    until(lambda: told(source, m.GPU_UP) == {"0": 1, "1": 1})
