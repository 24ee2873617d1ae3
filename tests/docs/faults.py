"""What can be injected; causes and kinds come from the contract."""

from lockstep.collector.contract.words import FAULT_CAUSES, FaultKind
from lockstep.workloads.faults.kinds import BUILT
from tests.docs.tables import code, table

HAPPENS = {
    FaultKind.COMPUTE: "the emulated device takes longer",
    FaultKind.THERMAL: "as `compute`, and the simulated GPU reports heat first, then a lower"
    " clock, then thermal throttling",
    FaultKind.POWER: "as `compute`, with a lowered power limit",
    FaultKind.ECC: "as `compute`, with corrected and uncorrected errors, a remapped row and XID 63",
    FaultKind.XID: "as `compute`, with an XID (`xid=NUMBER`, default 121); one that ends real"
    " applications ends the rank",
    FaultKind.PCIE: "the rank waits where it would copy to the device; the simulated link falls"
    " from x16 to x4 and replays",
    FaultKind.NVLINK: "the rank enters its gradients' all-reduce later; simulated NVLinks are down"
    " and count errors",
    FaultKind.DATA: "the rank's batches arrive late",
    FaultKind.GC: "a storm of real garbage collections in the rank",
    FaultKind.CPU_QUOTA: "a cgroup quota holds the rank's CPU back (needs root)",
    FaultKind.LINK_BANDWIDTH: "the kernel's tbf limits the node's link (needs root)",
    FaultKind.LINK_DELAY: "packets of the node are delayed, and lost if asked (needs root)",
    FaultKind.FREEZE: "the process is stopped; the others hang in their collective",
    FaultKind.CRASH: "the process is killed",
}
GRAMMAR = """\
`--fault KIND:rank=R|node=N[,factor=F][,from=STEP][,to=STEP][,shape=SHAPE]`, or
`--fault random@SEED`.

`factor` is the rank's own time per step during the fault over before. Steps count from 0; `from` is
inclusive and defaults to a third of the steps, `to` is exclusive and defaults to the end; `node=N`
means every rank of it. `shape` is `constant`, `transient` (20 steps), `periodic` (`period=STEPS`,
`duty=RATIO`) or `ramp`. `random@SEED` draws kind, place, onset and size from what this machine can
do, links left out. [What faults do, and how well they are found](../ml/faults.md)."""


def text() -> str:
    """The grammar, and one row a kind."""
    rows = [(code(kind), HAPPENS[kind], code(FAULT_CAUSES[kind])) for kind in BUILT]
    return f"{GRAMMAR}\n\n{table(('kind', 'what really happens', 'cause in the verdict'), rows)}"
