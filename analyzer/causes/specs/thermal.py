"""The GPU is too hot and lowers its clock."""

from lockstep.analyzer.causes.cause_spec import AGAINST, DRAIN, MAY, MUST, QUERY, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.THERMAL,
    expects={
        MUST: ("thermal throttling",),
        MAY: ("lower clock", "heat", "excess in compute"),
        AGAINST: (
            "power throttling", "contradiction", "excess in data", "excess in gradients",
            "excess in checkpoints",
        ),
    },
    must_see="Thermal throttle seconds (NVML F79 to F81) and a lower SM clock, the rank hotter.",
    must_not_see=(
        "Power-cap seconds without thermal ones, the clock at its maximum, or growth outside the"
        " compute phases."
    ),
    words="its GPU is too hot",
    node_words="its GPUs are too hot",
    advice=(
        Action("verify", "Read temperatures and throttle reasons on the node.",
               QUERY + "TEMPERATURE,PERFORMANCE,CLOCK"),
        DRAIN,
        Action("prevent", "Have inlet temperature, fans and the heat sink's seating checked."),
    ),
    runbook="LockstepGpuThermalViolation",
    of_gpu=True,
)  # fmt: skip
