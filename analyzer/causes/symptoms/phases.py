"""In which phases of the step the excess is."""

from collections.abc import Callable, Sequence

from lockstep.analyzer.causes.symptoms.shape import Symptom
from lockstep.analyzer.shapes.run import Basis, Finding, Grid
from lockstep.analyzer.stats.before_after import COMPUTE_PHASES, compute_share
from lockstep.analyzer.stats.robust_stats import MOSTLY
from lockstep.collector.contract.words import Phase

PARTLY = 0.35
"""Share of the excess that is a part of it; MOSTLY is where the cause is. Chosen: of two causes at
once each has about half, of three a third."""
SHARES = "phase shares of the finding"
"""What its facts are told by."""


def excess_in(phases: Sequence[str], words: str) -> Callable[[Grid, Finding], Symptom | None]:
    """The symptom that the excess is in these phases; `words` say where."""

    def measured(grid: Grid, finding: Finding) -> Symptom | None:
        if not finding.share or (_unnamed(phases) and compute_share(grid, finding) is None):
            return None
        share = sum(finding.share.get(phase, 0.0) for phase in phases)
        return of_excess(share, f"{share:.0%} of the excess is {words}", SHARES, Basis.PHASES)

    return measured


def of_excess(share: float, text: str, query: str, basis: Basis) -> Symptom:
    """The symptom that a share of the excess is."""
    return Symptom(share >= PARTLY, text, query, grave=share >= MOSTLY, basis=basis)


def _unnamed(phases: Sequence[str]) -> bool:
    """Phases that a program which names none seems to have all or nothing of."""
    return any(phase in (*COMPUTE_PHASES, Phase.OTHER) for phase in phases)


compute = excess_in(COMPUTE_PHASES, "in forward, backward and optimizer")
data = excess_in((Phase.DATA,), "in the data phase")
gradients = excess_in((Phase.GRAD_SYNC,), "where gradients leave the GPU")
checkpoint = excess_in((Phase.CHECKPOINT,), "in the checkpoint phase")
other = excess_in((Phase.OTHER,), "in no named phase of the step")
