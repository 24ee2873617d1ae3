"""The GPU's links to its neighbours are down or full of errors."""

from lockstep.analyzer.causes.cause_spec import AGAINST, DRAIN, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.NVLINK,
    expects={
        MUST: ("NVLink trouble",),
        MAY: ("XID of NVLink", "excess in gradients"),
        AGAINST: ("excess in compute", "excess in data", "PCIe trouble"),
    },
    must_see=(
        "Links down, or CRC, replay and recovery errors, that began with it. In a"
        " tensor-parallel group all ranks slow together."
    ),
    must_not_see=(
        "PCIe replays, or the excess anywhere but where gradients and activations leave the GPU."
    ),
    words="NVLinks of its GPU are down or full of errors",
    node_words="NVLinks of its GPUs are down or full of errors",
    advice=(
        Action("verify", "See which links are down or count errors.",
               "ssh {node} 'nvidia-smi nvlink -s -i {gpu}; nvidia-smi nvlink -e -i {gpu}'"),
        DRAIN,
    ),
    runbook="LockstepNvlinkDown",
    of_gpu=True,
    of_network=True,
    explains=("driver",),
)  # fmt: skip
