"""The GPU's links to its neighbours are down or full of errors."""

from analyzer import signs
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.signs.weigh import weigh
from analyzer.signs.xid import parts
from collector.contract.words import Cause, Phase


class Nvlink:
    """Must see: links down, or CRC, replay and recovery errors, that began with it.

    Must not see: PCIe replays, or the excess anywhere but where gradients and activations leave the
    GPU (reference 7, L6). In a tensor-parallel group all ranks slow together.
    """

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Strong with links that failed with the slowdown."""
        if finding.kind != "slow":
            return Evidence(Cause.NVLINK, -8.0)
        facts: list[Fact] = []
        missing: list[str] = []
        odds = weigh(signs.nvlink(grid, finding), "the GPU's NVLinks", facts, missing)
        logged = signs.xid(grid, finding)
        if logged is not None and logged.explains and Cause.NVLINK in parts(grid, finding):
            facts.append(Fact(True, logged.text, logged.query))
            odds += 2.0
        share = finding.share.get(Phase.GRAD_SYNC, 0.0)
        out = share >= 0.5
        text = f"{share:.0%} of the excess is where gradients leave the GPU"
        facts.append(Fact(out, text, "phase shares of the finding"))
        odds += 1.0 if out else -2.0
        other = signs.pcie(grid, finding)
        if other is not None and other.explains:
            facts.append(Fact(False, other.text, other.query))
            odds -= 3.0
        return Evidence(Cause.NVLINK, odds, tuple(facts), tuple(missing))
