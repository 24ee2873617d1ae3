"""The rank writes a checkpoint in steps that are not tagged as such."""

from lockstep.analyzer.causes.cause_spec import MAY, MUST, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.CHECKPOINT,
    expects={
        MUST: ("excess in checkpoints",),
        MAY: ("idle GPU",),
    },
    must_see=(
        "The excess in the checkpoint phase; steps tagged `checkpoint` are masked anyway. All"
        " ranks write at once by design; one that takes longer than its peers has slow storage."
    ),
    words="it writes checkpoints longer than the others",
    node_words="its ranks write checkpoints longer than the others",
)  # fmt: skip
