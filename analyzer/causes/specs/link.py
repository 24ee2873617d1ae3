"""A link between nodes carries less than it did."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.LINK,
    kinds=("link",),
    expects={
        MUST: ("longer transfers",),
        MAY: ("lossy link", "longer round trips"),
        AGAINST: ("more bytes", "busy hosts", "full link"),
    },
    must_see=(
        "Transfer time up; retransmissions, errors or a lower speed of one node's link, or longer"
        " round trips over TCP."
    ),
    must_not_see=(
        "More bytes a step, hosts that lack processors, or a rank whose own time grew (then the"
        " finding is about that rank)."
    ),
    words="the link carries less than it did",
    node_words="its link carries less than it did",
    advice=(
        Action("verify", "Look for drops, errors and a lower speed on the node's links.",
               "ssh {node} 'ip -s link; ibstat'"),
        Action("verify", "Measure the links between the nodes.",
               "lockstep run allreduce --nodes 8 --probe"),
        Action("mitigate", "Take the node or the link out of service; have cable and optics"
               " checked."),
    ),
    runbook="LockstepIbLinkDown",
    of_network=True,
    explains=("network",),
)  # fmt: skip
