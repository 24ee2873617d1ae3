"""Causes of a whole node in words, as analyzer.sentence.CAUSE_WORDS has them of a rank."""

from collector.contract.words import Cause

NODE_CAUSE_WORDS: dict[str, str] = {
    Cause.THERMAL: "its GPUs are too hot",
    Cause.POWER: "its GPUs are held at a power cap",
    Cause.SLOW_GPU: "it computes slowly for no reason that its GPUs or the host tell",
    Cause.HOST_CPU: "the host does not give its ranks the CPU they need",
    Cause.DATA: "its ranks wait for their input data",
    Cause.ECC: "the memory of its GPUs makes errors",
    Cause.XID: "the driver logged errors of its GPUs",
    Cause.PCIE: "the PCIe links of its GPUs have become slow",
    Cause.NVLINK: "NVLinks of its GPUs are down or full of errors",
    Cause.LINK: "its link carries less than it did",
    Cause.CONGESTION: "its link is full",
    Cause.GC: "its ranks collect Python's garbage again and again",
    Cause.CHECKPOINT: "its ranks write checkpoints longer than the others",
    Cause.FREEZE: "its processes stand still",
    Cause.CRASH: "its processes are gone",
    Cause.SOFTWARE: "it runs other software than its peers",
    Cause.UNKNOWN: "the cause is not known",
}
