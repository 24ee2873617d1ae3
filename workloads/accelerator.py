"""The device that a rank computes on: this machine's cores, or a CUDA GPU."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lockstep.workloads.spec import RunSpec


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Where the tensors of a rank are."""

    device: torch.device

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    @property
    def backend(self) -> str:
        """Of the process groups; the host's own tensors, as of clocks, go over gloo everywhere."""
        return "cpu:gloo,cuda:nccl" if self.is_cuda else "gloo"

    @property
    def process_device(self) -> torch.device | None:
        """What `init_process_group` is told: NCCL must know its GPU before it connects."""
        return self.device if self.is_cuda else None

    @property
    def name(self) -> str:
        """The GPU's model, as its driver names it; empty on CPU."""
        return torch.cuda.get_device_name(self.device) if self.is_cuda else ""

    @property
    def uuid(self) -> str:
        """The GPU's identity in NVML's words; empty on CPU."""
        return f"GPU-{torch.cuda.get_device_properties(self.device).uuid}" if self.is_cuda else ""

    def use(self) -> None:
        """Make it the current device of this process."""
        if self.is_cuda:
            torch.cuda.set_device(self.device)

    def precision(self) -> AbstractContextManager[object]:
        """Around a forward pass: bf16 products over fp32 weights and gradients on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self.is_cuda else nullcontext()

    def batch(self, made: Any) -> Any:
        """An array, a tensor, or a tuple of them on the device; the copy waits for nothing.

        Raises:
            TypeError: It is anything else, which only a GPU would miss.
        """
        if isinstance(made, tuple):
            return tuple(self.batch(one) for one in made)
        host = torch.from_numpy(made) if isinstance(made, np.ndarray) else made
        if not isinstance(host, torch.Tensor):
            raise TypeError(f"a batch of arrays or tensors is asked for, not {type(made).__name__}")
        return host.pin_memory().to(self.device, non_blocking=True) if self.is_cuda else host

    def fetched(self, value: torch.Tensor) -> torch.Tensor:
        """A scalar on the host, which has it once the device has come here (StepRecorder.after)."""
        if not self.is_cuda:
            return value.detach()
        host = torch.empty((), dtype=value.dtype, pin_memory=True)
        return host.copy_(value.detach(), non_blocking=True)


def accelerator(spec: RunSpec, place: int) -> Accelerator:
    """A rank's device: its own GPU of this machine, or the cores.

    Args:
        place: Among the ranks of this machine: its rank where nodes are emulated.
    """
    if spec.device == "cuda":
        return Accelerator(torch.device("cuda", place))
    return Accelerator(torch.device("cpu"))
