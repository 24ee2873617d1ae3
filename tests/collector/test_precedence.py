"""Which source of GPUs feeds the page."""

from dataclasses import dataclass, field

import pytest

from collector.gpu_reading import Gpu, GpuReading
from collector.precedence import Ranked
from collector.reading import SourceError


@dataclass
class Fake:
    name: str
    here: bool = True
    gpus: int = 1
    fails: bool = False
    stalled: bool = False
    closed: list[bool] = field(default_factory=list)

    def available(self) -> bool:
        return self.here

    def why_not(self) -> str:
        return f"{self.name} is missing"

    def read(self) -> GpuReading:
        if self.fails:
            raise SourceError("x", "y")
        gpus = tuple(Gpu(index, f"GPU-{index}") for index in range(self.gpus))
        return GpuReading(gpus, stalled=self.stalled)

    def close(self) -> None:
        self.closed.append(True)


@pytest.fixture
def two():
    first, second = Fake("nvml"), Fake("dcgm")
    ranked = Ranked(first)
    return first, ranked, Ranked(second, [ranked])


def test_the_better_one_keeps_the_other_off(two):
    _, nvml, dcgm = two
    nvml.read()

    assert not dcgm.available()
    assert dcgm.why_not() == "nvml feeds the page"


def test_the_other_serves_where_the_better_one_fails_or_has_no_gpu(two):
    first, nvml, dcgm = two
    nvml.read()
    first.fails = True
    with pytest.raises(SourceError):
        nvml.read()
    assert dcgm.available()

    first.fails, first.gpus = False, 0
    nvml.read()
    assert dcgm.available()

    first.gpus = 1
    nvml.read()
    assert not dcgm.available()


def test_one_that_stands_still_goes_on_serving(two):
    first, nvml, dcgm = two
    nvml.read()
    first.gpus, first.stalled = 0, True
    nvml.read()

    assert not dcgm.available()


def test_what_is_missing_and_what_was_started_pass_through(two):
    first, nvml, _ = two
    first.here = False
    nvml.close()

    assert nvml.why_not() == "nvml is missing"
    assert first.closed == [True]
