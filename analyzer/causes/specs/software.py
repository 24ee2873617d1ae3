"""Other software than before, or than the peers have: driver, firmware or kernel."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

ADVICE = (
    Action("verify", "Compare driver, firmware and kernel with a node that is not slow.",
           "ssh {node} 'uname -r; nvidia-smi"
           " --query-gpu=driver_version,vbios_version --format=csv'"),
    Action("mitigate", "Bring the node to the image of its peers, or the peers back to the"
           " version that was faster."),
    Action("prevent", "Lock a baseline and compare a run before and after every update."),
)  # fmt: skip

SPEC = CauseSpec(
    cause=Cause.SOFTWARE,
    kinds=("slow", "structure"),
    expects={
        MUST: ("other software", "software everywhere"),
        AGAINST: (
            "mates as fast", "thermal throttling", "power throttling", "no processor",
            "memory errors", "PCIe trouble", "NVLink trouble",
        ),
    },
    must_see=(
        "A version of the info series that changed at the onset, where the slowdown is. On all"
        " nodes for a run that is slower as a whole; on the slow rank's node and not on its"
        " peers', or differing there all along, for a rank."
    ),
    must_not_see=(
        "Throttling, errors of the GPU, a CPU quota at work, or ranks on the same node that are"
        " as fast as before."
    ),
    words="its node runs other software than its peers",
    node_words="it runs other software than its peers",
    advice=ADVICE,
    advice_without_gpu=(
        Action("verify", "Compare firmware and kernel with a node that is not slow.",
               "ssh {node} uname -r"),
        *ADVICE[1:],
    ),
    runbook="LockstepRunSlowVsBaseline",
)  # fmt: skip
