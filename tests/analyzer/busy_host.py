"""Runs of ranks that share a crowded host: steps are noisy, and a phase may be quiet.

Each rank does a step's phases after each other and waits for the others in between. What the host
takes from it comes in waits of tens of milliseconds, more of them where it computes for longer, and
more in some minutes than in others; of nothing the scheduler's part is counted. No part of the
analyzer is used to make them.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid, RankInfo, Run
from lockstep.analyzer.shapes.windows import from_steps
from lockstep.collector.contract import archive
from lockstep.collector.contract.words import PHASES

EPOCH = 1_760_000_000.0
COMPUTING = {"forward": 0.006, "backward": 0.012, "optimizer": 0.002}
"""Seconds a step on an idle host."""
LOADING = 0.0003
TRANSFER = 0.002
WARMUP = 5
CHECKPOINT_EVERY = 10
CHECKPOINT = 0.15
WANDERS = 20
"""Steps from which on the host is as busy as it happens to be."""


@dataclass(frozen=True)
class Busy:
    """One run.

    Attributes:
        seed: Of all that is drawn.
        world: Ranks, each a node of its own.
        steps: How many.
        waits: Waits for a processor in each second of computing on an idle host, on average.
        seconds: Of one wait, on average; they are distributed exponentially.
        wander: Spread, as a log, of how many waits a rank has in some twenty steps.
        phase: Which phase of a rank takes longer: of PHASES, or gc; None = nobody's.
        rank: Whose.
        more: Seconds a step; of gc each tenth step has ten of them; of a checkpoint by what factor
            it takes longer.
        first: The first such step.
        named: Whether the program names its phases; else all is `other`.
    """

    seed: int = 0
    world: int = 4
    steps: int = 160
    waits: float = 25.0
    seconds: float = 0.03
    wander: float = 0.4
    phase: str | None = None
    rank: int = 2
    more: float = 0.045
    first: int = 60
    named: bool = True

    def run(self) -> Run:
        """The run as its archive tells it, without telemetry."""
        dice = np.random.default_rng(self.seed)
        phases, garbage = self._phases(dice)
        own = np.sum(list(phases.values()), axis=0)
        before = own - phases["optimizer"] - phases["checkpoint"]
        wait = before.max(axis=1, keepdims=True) - before
        transfer = TRANSFER * (1 + 0.1 * np.abs(dice.standard_normal((self.steps, 1))))
        collective = wait + transfer
        # Who is through begins the next step, and waits in its exchange.
        wall = own + collective
        ends = EPOCH + np.cumsum(wall, axis=0)
        tags = np.full(self.steps, "", dtype=object)
        tags[:WARMUP] = "warmup"
        tags[self._written()] = "checkpoint"
        columns = {f"{phase}_seconds": phases.get(phase, np.zeros_like(own)) for phase in PHASES}
        columns["grad_sync_seconds"] = collective
        if not self.named:
            columns = dict.fromkeys(columns, np.zeros_like(own)) | {"other_seconds": wall}
        steps, ranks = np.indices(own.shape)
        cells = {
            "step": steps, "rank": ranks, "attempt": np.zeros_like(steps), "start": ends - wall,
            "wall_seconds": wall, "cpu_seconds": 0.02 + garbage, "own_seconds": own, **columns,
            "tags": np.repeat(tags[:, None], self.world, axis=1), "loss": 3.0 - 0.001 * steps,
            "samples": np.full_like(steps, 4), "tokens": np.full_like(steps, 128),
            "flops": np.full(own.shape, 1e9),
        }  # fmt: skip
        frame = pd.DataFrame({name: values.reshape(-1) for name, values in cells.items()})
        return Run(
            name=f"busy-{self.seed}",
            meta={
                "schema_version": archive.SCHEMA_VERSION, "run": f"busy-{self.seed}",
                "outcome": "finished", "ended": float(ends.max()),
                "layout": {"nodes": self.world, "ranks_per_node": 1, "dp": self.world, "tp": 1,
                           "pp": 1},
            },
            ranks=tuple(RankInfo(r, f"node-{r}", None, None, 0, r, 0, 0)
                        for r in range(self.world)),
            windows=from_steps(frame),
            samples=pd.DataFrame(columns=[column.name for column in archive.SAMPLES]).astype(
                {"gpu": "Int32", "rank": "Int32"}),
            ops=self._collections(garbage, ends - wall),
        )  # fmt: skip

    def _phases(self, dice: np.random.Generator) -> tuple[dict[str, FloatGrid], FloatGrid]:
        """(S, R) own seconds of each phase, and of the garbage collector inside of `other`."""
        shape = (self.steps, self.world)
        blocks = dice.standard_normal((self.steps // WANDERS + 2, *shape[1:]))
        middles = np.arange(len(blocks)) * WANDERS
        level = np.stack([np.interp(np.arange(self.steps), middles, each) for each in blocks.T])
        often = self.waits * np.exp(self.wander * level.T)
        made = {}
        for phase, seconds in COMPUTING.items():
            alone = seconds * np.exp(0.05 * dice.standard_normal(shape))
            count = dice.poisson(often * seconds)
            # The sum of so many exponential waits.
            made[phase] = alone + self.seconds * dice.standard_gamma(np.maximum(count, 1e-9))
        made["data"] = LOADING * np.exp(0.3 * dice.standard_normal(shape))
        made["checkpoint"] = np.zeros(shape)
        writes = CHECKPOINT * np.exp(0.1 * dice.standard_normal((len(self._written()), self.world)))
        made["checkpoint"][self._written()] = writes
        garbage = np.where(dice.random(shape) < 0.03, 0.002, 0.0)
        since = np.arange(self.steps) >= self.first
        if self.phase == "gc":
            garbage[since & (np.arange(self.steps) % 10 == 5), self.rank] += 10 * self.more
        elif self.phase == "checkpoint":
            made["checkpoint"][since, self.rank] *= self.more
        elif self.phase is not None:
            made[self.phase][since, self.rank] += self.more
        made["other"] = 0.0005 + garbage
        return made, garbage

    def _written(self) -> NDArray[np.int64]:
        return np.arange(CHECKPOINT_EVERY, self.steps, CHECKPOINT_EVERY)

    def _collections(self, garbage: FloatGrid, begin: FloatGrid) -> pd.DataFrame:
        """What the ranks recorded of the garbage collector; nothing else."""
        told = garbage > 0
        told[[0, -1]] = True
        steps, ranks = np.nonzero(told)
        seconds = garbage[told]
        cells = {
            "dp_rank": ranks, "stage": 0, "tp_rank": 0, "rank": ranks, "step": steps,
            "optype": "gc", "start_ts": 0.0, "duration": seconds, "seq_id": 0, "mc": -1,
            "gmc": -1, "mb_id": -1, "group": "", "sequence": 0, "bytes": 0,
            "start_ns": (1e9 * begin[told]).astype(np.int64),
            "end_ns": (1e9 * (begin[told] + seconds)).astype(np.int64), "flags": "", "tag": "",
        }  # fmt: skip
        return pd.DataFrame(cells)[[column.name for column in archive.OPS]]
