"""All symptoms, one row each, and which of them a finding shows.

A symptom is measured in the same way whatever the cause may be. One without data is missing, and
speaks neither for nor against a cause.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lockstep.analyzer.causes.symptoms import gpu_state, host, network, software
from lockstep.analyzer.causes.symptoms.gpu_errors import ecc, nvlink, pcie, xid_of
from lockstep.analyzer.causes.symptoms.series import Symptom
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.before_after import has_gpu
from lockstep.collector.contract.words import Cause

KINDS = SLOW, STOP, LINK, RUN = "slow", "hang", "link", "structure"
"""Kinds of findings that have causes."""


@dataclass(frozen=True, slots=True)
class SymptomSpec:
    """A symptom in one row.

    Attributes:
        name: Its key in the table of weights and in `CauseSpec.expects`.
        measure: Measures it at one finding; None = no data.
        told_by: The data that are missing then, in words; empty where nothing is missing.
        kinds: Of findings at which it is looked for.
        of_gpu: Only a rank with a GPU can have it.
        of_work: It shows what a rank does, which more work changes as well.
        mutual: Mild, it is a difference of two places, as much the one's as the other's: physics
            says nothing of which of them is well.
    """

    name: str
    measure: Callable[[Grid, Finding], Symptom | None]
    told_by: str = ""
    kinds: tuple[str, ...] = (SLOW,)
    of_gpu: bool = False
    of_work: bool = False
    mutual: bool = False


MEMORY = "memory errors of the GPU"
DRIVER_LOG = "the driver's log"
VERSIONS = "versions of the driver and the kernel"
PHASES = "when it computes: its program names no phases"

SYMPTOMS: tuple[SymptomSpec, ...] = (
    SymptomSpec(
        "thermal throttling",
        gpu_state.thermal_throttling,
        "thermal clock-event seconds",
        of_gpu=True,
    ),
    SymptomSpec(
        "power throttling", gpu_state.power_throttling, "power clock-event seconds", of_gpu=True
    ),
    SymptomSpec("lower clock", gpu_state.clock, "SM clock", of_gpu=True),
    SymptomSpec("heat", gpu_state.temperature, "GPU temperature", of_gpu=True),
    SymptomSpec("power at its cap", gpu_state.power_cap, "GPU power and its limit", of_gpu=True),
    SymptomSpec("idle GPU", gpu_state.idle, of_gpu=True),
    SymptomSpec("contradiction", gpu_state.contradiction, of_gpu=True),
    SymptomSpec("memory errors", ecc, MEMORY, of_gpu=True),
    SymptomSpec("XID", xid_of(None), DRIVER_LOG, (SLOW, STOP), of_gpu=True),
    SymptomSpec("XID of memory", xid_of(Cause.ECC), DRIVER_LOG, of_gpu=True),
    SymptomSpec("XID of NVLink", xid_of(Cause.NVLINK), DRIVER_LOG, of_gpu=True),
    SymptomSpec("XID of PCIe", xid_of(Cause.PCIE), DRIVER_LOG, of_gpu=True),
    SymptomSpec("PCIe trouble", pcie, "the GPU's PCIe link", of_gpu=True),
    SymptomSpec("NVLink trouble", nvlink, "the GPU's NVLinks", of_gpu=True),
    SymptomSpec("no processor", host.processor, "CPU quota and run queue of the rank"),
    SymptomSpec("pressure", host.pressure),
    SymptomSpec("more CPU time", host.cpu_time, of_work=True),
    SymptomSpec("excess on the CPU", host.cpu_bound, of_work=True),
    SymptomSpec(
        "garbage collection", host.collector, "time in the garbage collector", of_work=True
    ),
    SymptomSpec("stopped heartbeat", host.stands_still, "heartbeat of the rank", of_work=True),
    SymptomSpec("excess in compute", host.compute, PHASES, of_work=True),
    SymptomSpec("excess in data", host.data, of_work=True),
    SymptomSpec("excess in gradients", host.gradients, of_work=True),
    SymptomSpec("excess in checkpoints", host.checkpoint, of_work=True),
    SymptomSpec("excess elsewhere", host.other, of_work=True),
    SymptomSpec("other software", software.software, VERSIONS, mutual=True),
    SymptomSpec("mates as fast", software.mates_as_fast, of_work=True),
    SymptomSpec("software everywhere", software.everywhere, VERSIONS, (RUN,)),
    SymptomSpec("longer transfers", network.longer_transfers, "", (LINK,)),
    SymptomSpec("lossy link", network.losses, "network counters of the nodes", (LINK,)),
    SymptomSpec("full link", network.pauses, "pauses and credits of the links", (LINK,)),
    SymptomSpec("longer round trips", network.round_trips, "", (LINK,)),
    SymptomSpec("more bytes", network.more_bytes, "", (LINK,)),
    SymptomSpec("busy hosts", network.busy_hosts, "", (LINK,)),
    SymptomSpec("process gone", host.gone, "", (STOP,)),
    SymptomSpec("process frozen", host.frozen, "", (STOP,)),
)
BY_NAME: Mapping[str, SymptomSpec] = {spec.name: spec for spec in SYMPTOMS}


def measured(grid: Grid, finding: Finding) -> dict[str, Symptom]:
    """Every symptom that can be measured at a finding, whether it is there or not."""
    gpu = has_gpu(grid, finding.rank)
    symptoms = {
        spec.name: spec.measure(grid, finding)
        for spec in SYMPTOMS
        if finding.kind in spec.kinds and (gpu or not spec.of_gpu)
    }
    return {name: symptom for name, symptom in symptoms.items() if symptom is not None}


def states_of(
    grid: Grid, findings: Sequence[Finding], symptoms: Sequence[Mapping[str, Symptom]]
) -> dict[str, float]:
    """`symptom: state` of all that is measured at a place -> share of its ranks that have it.

    Args:
        grid: The run's windows.
        findings: The findings of its ranks.
        symptoms: `symptoms[i]` is what was measured of `findings[i]`.
    """
    ranks = [_states(grid, *rank) for rank in zip(findings, symptoms, strict=True)]
    every = sorted({state for states in ranks for state in states})
    return {state: sum(state in states for states in ranks) / len(ranks) for state in every}


def _states(grid: Grid, finding: Finding, symptoms: Mapping[str, Symptom]) -> list[str]:
    """Of one rank, with what kind of finding it is about.

    Of the finding itself whether it is a slow one, the rank has a GPU, and it is a whole node. Not
    how the slowness goes over time: that says more of who made the runs that the weights are fitted
    on than of causes.
    """
    states = ["slow finding"] if finding.kind == SLOW else []
    states += [f"{name}: {state}" for name, symptom in symptoms.items() for state in symptom.states]
    if not has_gpu(grid, finding.rank):
        states.append("no GPU")
    if finding.details.get("node") and finding.kind == SLOW:
        states.append("whole node")
    return states
