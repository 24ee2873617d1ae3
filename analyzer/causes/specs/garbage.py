"""The rank collects Python's garbage, alone and again and again."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.GC,
    expects={
        MUST: ("garbage collection",),
        MAY: ("excess elsewhere", "excess on the CPU"),
        AGAINST: ("excess in data", "excess in compute"),
    },
    must_see=(
        "Seconds in the collector that grew with the own time; they are timed by callbacks."
        " Without them: the excess in no named phase of the step, and all of it CPU time of the"
        " training thread."
    ),
    must_not_see="The excess in the data or a compute phase.",
    words="it collects Python's garbage again and again",
    node_words="its ranks collect Python's garbage again and again",
    advice=(
        Action("verify", "See what the rank's Python process is doing.",
               "ssh {node} py-spy top --pid $(pgrep -n -f train)"),
        Action("prevent", "Collect garbage on all ranks in the same step: gc.disable(), and"
               " gc.collect() every so many steps."),
    ),
)  # fmt: skip
