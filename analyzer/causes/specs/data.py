"""The rank waits for its input data."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.DATA,
    expects={
        MUST: ("excess in data",),
        MAY: ("idle GPU",),
        AGAINST: ("no processor", "PCIe trouble"),
    },
    must_see="The excess in the data phase, which the loop times around its loader.",
    must_not_see=(
        "A CPU quota at work, which slows the loader with everything else, or a PCIe link that"
        " fell, which slows the copy to the device in the same phase."
    ),
    words="it waits for its input data",
    node_words="its ranks wait for their input data",
    advice=(
        Action("verify", "See whether storage or the loader is slow on this node.",
               "ssh {node} 'iostat -x 1 3; df -h'"),
        Action("mitigate", "Give the rank more loader workers, or its shard another volume."),
    ),
)  # fmt: skip
