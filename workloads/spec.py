"""What to run: the layout of ranks and the settings of one run."""

import shlex
from dataclasses import asdict, dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from workloads.faults.plan import Fault

WORKLOADS: tuple[str, ...] = ("gpt",)
LAUNCHERS: tuple[str, ...] = ("local",)
MAX_LOCAL_RANKS = 8


class SpecError(ValueError):
    """A setting of the run is wrong; the message names it and what would be right."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The grid of ranks: rank = (pp * DP + dp) * TP + tp; node = rank // ranks_per_node."""

    nodes: int
    ranks_per_node: int
    dp: int
    tp: int = 1
    pp: int = 1

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks_per_node", "dp", "tp", "pp"):
            if getattr(self, name) < 1:
                raise SpecError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.world != self.dp * self.tp * self.pp:
            raise SpecError(
                f"dp {self.dp} x tp {self.tp} x pp {self.pp} = {self.dp * self.tp * self.pp} does"
                f" not match {self.nodes} nodes x {self.ranks_per_node} ranks = {self.world} ranks"
            )

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node

    def node(self, rank: int) -> str:
        """Name of the emulated node of a rank."""
        return f"node-{rank // self.ranks_per_node}"

    def local_rank(self, rank: int) -> int:
        """Rank inside its node; also the index of its GPU."""
        return rank % self.ranks_per_node

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """(dp, pp, tp) of a rank."""
        tp = rank % self.tp
        dp = rank // self.tp % self.dp
        pp = rank // (self.tp * self.dp)
        return dp, pp, tp


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Everything that decides a run.

    Attributes:
        run: Run id, `<workload>-<UTC yyyymmddThhmmss>-<4 hex>`, at most 63 characters.
        pace: Emulated devices (DESIGN 3.2); False runs at the speed of this machine.
        device_noise: Standard deviation of the emulated device's time per step, as a ratio.
        device_seconds: Emulated device time per step at least.
        hang_timeout: Seconds without a completed step on any rank after which the run is ended.
    """

    run: str
    workload: str
    layout: Layout
    steps: int
    seed: int
    faults: tuple[Fault, ...] = ()
    launcher: str = "local"
    pace: bool = True
    device_noise: float = 0.02
    device_seconds: float = 0.040
    hang_timeout: float = 10.0

    def gpu_uuid(self, rank: int) -> str | None:
        """Identity of the simulated GPU behind a rank; None without emulated devices."""
        if not self.pace:
            return None
        node, gpu = self.layout.node(rank), self.layout.local_rank(rank)
        return f"SIM-{uuid5(NAMESPACE_URL, f'{self.run}/{node}/{gpu}')}"

    def command(self, *, faults: bool) -> str:
        """The command line that repeats this run, with or without its faults."""
        layout = self.layout
        injected = self.faults if faults else ()
        words = [
            f"lockstep run {self.workload} --nodes {layout.nodes}",
            f"--ranks-per-node {layout.ranks_per_node} --steps {self.steps} --seed {self.seed}",
            *(f"--fault {shlex.quote(fault.spec)}" for fault in injected),
            f"--device-noise {self.device_noise:g}" if self.pace else "--pace off",
            f"--hang-timeout {self.hang_timeout:g}",
        ]
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON types, without its faults: those are for truth.json alone."""
        return {name: value for name, value in asdict(self).items() if name != "faults"}
