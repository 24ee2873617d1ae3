"""GPUs, whichever source told of them: one file a subject."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from collector.collectors.gpu import (
    activity,
    clocks,
    ecc,
    health,
    identity,
    memory,
    nvlink,
    pcie,
    power,
    temperature,
)
from collector.collectors.gpu.rows import Row, rows
from collector.contract import metrics as m
from collector.contract.metrics import Metric, Sample
from collector.counters import Key
from collector.gpu_reading import Gpu, GpuReading
from collector.zero_series_folding import ZeroSeriesFolding

SUBJECTS = (health, activity, memory, temperature, power, clocks, ecc, pcie, nvlink)
TOLD: dict[str, Metric] = {
    metric.name: metric for subject in SUBJECTS for metric in subject.METRICS
}
"""What goes to the page as it was told, by name."""
QUIET: dict[str, Callable[[str], str]] = ecc.QUIET | nvlink.QUIET
"""What has a series for every place: its zeros share one, under the labels that this gives."""
MADE: tuple[Callable[[Gpu], Iterator[Sample]], ...] = (
    identity.collect,
    clocks.collect_reasons,
    nvlink.collect_fabric,
)
"""What else is said of a GPU that answers."""


class Collect:
    """Samples of GPUs; those of a value that did not change are the very same as before.

    Most of what a GPU tells is read every thirty seconds, and what is the same object costs
    nothing more on its way to the page. Each feed has one of these for itself.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], dict[str, Row]] = {}
        self._folding = ZeroSeriesFolding()

    def __call__(self, reading: GpuReading) -> Iterator[Sample]:
        """Everything that was told; of a GPU that does not answer, only that."""
        before, self._rows = self._rows, {}
        if reading.expected is not None:
            yield m.GPU_EXPECTED(reading.expected)
        if reading.present is not None:
            yield m.GPU_PRESENT(reading.present)
        for gpu in reading.gpus:
            yield from health.collect_up(gpu)
            if gpu.up:
                who = (gpu.index, gpu.uuid)
                said = self._rows[who] = rows(gpu, TOLD, before.get(who, {}), self._folded)
                for row in said.values():
                    yield from row.samples
                for collect_more in MADE:
                    yield from collect_more(gpu)

    def resume(self, counted: Iterable[Key]) -> None:
        """These counters had counted before a restart, their driver may have begun anew."""
        for name, labels in counted:
            if name in QUIET:
                self._folding.recall((*labels[:2], name), "/".join(labels[2:]))

    def _folded(self, gpu: Gpu, name: str, told: Mapping[str, float]) -> Mapping[str, float]:
        together = QUIET.get(name)
        if together is None:
            return told
        return self._folding.fold((str(gpu.index), gpu.uuid, name), told, lambda _: False, together)


def collect(reading: GpuReading) -> Iterator[Sample]:
    """The samples of one reading."""
    return Collect()(reading)
