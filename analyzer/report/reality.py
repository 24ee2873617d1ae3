"""What of a run was real, what was emulated and what was simulated."""

from collections.abc import Mapping, Sequence
from typing import Any

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block

REAL = (
    "Processes, gradients, optimizer, data loading, collectives over gloo, this machine's CPU"
    " and memory, and every time that was recorded."
)
EMULATED_NODES = (
    "The nodes share one machine: each has its own rank process and its own collector, and they"
    " compete for the same processors."
)
EMULATED_DEVICES = (
    "Each compute segment does its arithmetic and then waits for the deadline of an emulated"
    " device ({milliseconds:g} ms a step at least, noise {noise:g} %). A device fault lengthens"
    " that time."
)
SIMULATED_GPU = (
    "GPU temperature, clocks, power and throttle time come from a model of a GPU that is driven"
    " by the emulated device. No hardware was hot."
)


def reality(meta: Mapping[str, Any], provenance: Sequence[str]) -> Block:
    """The section that says what may be believed literally.

    Args:
        meta: `run.json`; without a spec (a run of someone's own) nothing is known to be emulated.
        provenance: What the analyzer says about the origin of its input.
    """
    spec = meta.get("spec") or {}
    boxes = []
    if spec:
        boxes.append(blocks.callout("real", REAL))
    if spec.get("launcher") == "local":
        boxes.append(blocks.callout("emulated", EMULATED_NODES))
    if spec.get("pace"):
        words = EMULATED_DEVICES.format(
            milliseconds=1e3 * spec.get("device_seconds", 0.0),
            noise=1e2 * spec.get("device_noise", 0.0),
        )
        boxes.append(blocks.callout("emulated", words))
        boxes.append(blocks.callout("simulated", SIMULATED_GPU))
    notes = [blocks.text(each) for each in provenance if not boxes]
    return blocks.section("reality", "Real, emulated, simulated", [*boxes, *notes])
