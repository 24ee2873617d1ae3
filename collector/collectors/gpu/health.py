"""Whether the GPU answers, and what its driver wants done."""

from collections.abc import Iterator

from collector.contract import metrics as m
from collector.contract.metrics import Sample
from collector.gpu_reading import Gpu

METRICS = (m.GPU_RECOVERY_ACTION, m.GPU_PROCESSES, m.GPU_SAMPLE_INTERVAL)


def collect_up(gpu: Gpu) -> Iterator[Sample]:
    """Said of every GPU, whether or not it answers."""
    who = (str(gpu.index), gpu.uuid)
    yield m.GPU_UP(int(gpu.up), *who)
    if not gpu.is_mig:
        yield m.GPU_STALLED(int(gpu.stalled), *who)
