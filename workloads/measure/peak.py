"""What a device can do at most: measured on a CPU, from the data sheet on a GPU."""

from dataclasses import dataclass
from time import perf_counter

LEAST_SECONDS = 0.15
SIZE = 512
"""Rows of the square matrices: 2 · 512³ = 0.27 GFLOP, a few milliseconds of a core."""

DATA_SHEETS: tuple[tuple[str, float], ...] = (
    ("A100", 312e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H200 NVL", 835e12),
    ("H100", 989e12),
    ("H200", 989e12),
)
"""Dense bf16 FLOP/s by what the device's name holds; the first that fits (NVIDIA's data sheets)."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most FLOP/s of one device.

    Attributes:
        words: What a share of it is called. Model FLOP utilisation (MFU, PaLM's appendix B) is
            against a data sheet; against a measurement it would be a guess.
    """

    flops: float
    words: str


def measured() -> float:
    """FLOP/s of one core in fp32 matrix products, the best of a few.

    Single-threaded, so that the caller may fork afterwards; takes about LEAST_SECONDS.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    one, other = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    product = torch.mm(one, other)
    best, until = float("inf"), perf_counter() + LEAST_SECONDS
    while (began := perf_counter()) < until:
        torch.mm(one, other, out=product)
        best = min(best, perf_counter() - began)
    torch.set_num_threads(threads)
    return 2.0 * SIZE**3 / best


def of(gpu: str, core_flops: float | None) -> Peak | None:
    """The peak of a rank's device: of the GPU of that name, if any, else of a core."""
    if gpu:
        return of_gpu(gpu)
    return None if core_flops is None else of_core(core_flops)


def of_core(flops: float) -> Peak:
    """The peak that `measured` found."""
    return Peak(flops, "share of the GEMM peak measured here")


def of_gpu(name: str) -> Peak | None:
    """The peak of a GPU by the name its driver gives; None for one that is not in the table."""
    for part, flops in DATA_SHEETS:
        if part in name:
            return Peak(flops, "MFU")
    return None
