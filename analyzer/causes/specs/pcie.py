"""The way between host and GPU has become narrow, or repeats itself."""

from lockstep.analyzer.causes.cause_spec import AGAINST, DRAIN, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.PCIE,
    expects={
        MUST: ("PCIe trouble",),
        MAY: ("XID of PCIe",),
        AGAINST: ("excess in compute", "NVLink trouble"),
    },
    must_see="Fewer lanes, a lower generation or replays (NVML F94) that began with it.",
    must_not_see="NVLink errors, or the excess in the compute phases, where nothing is copied.",
    words="the PCIe link of its GPU has become slow",
    node_words="the PCIe links of its GPUs have become slow",
    advice=(
        Action("verify", "Compare the link's width and generation with their maximum.",
               "ssh {node} nvidia-smi -i {gpu}"
               " --query-gpu=pcie.link.gen.current,pcie.link.gen.max,"
               "pcie.link.width.current,pcie.link.width.max --format=csv"),
        DRAIN,
        Action("prevent", "Have the GPU and its riser reseated."),
    ),
    runbook="LockstepPcieDowntrained",
    of_gpu=True,
)  # fmt: skip
