"""What ranks tell of their training: counters that rise with each step, and how they stand."""

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.evaluation.synth.block import About, Block
from lockstep.evaluation.synth.fleet import SyntheticFleet
from lockstep.evaluation.synth.scrapes import Scrapes
from lockstep.evaluation.synth.times import Times, stage_of

TOKENS = 8192.0
SAMPLES = 2.0
FLOPS_A_TOKEN = 6.0 * 1e9
"""6 x parameters of the rank's share (Kaplan et al., arXiv 2001.08361)."""
COLLECTIVES = {"dp": 10, "tp": 96, "pp": 16}
"""Of a rank in a step, by group."""
LOSS_FIRST, LOSS_LAST = 10.0, 3.0


def training_blocks(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    """What a rank's ring tells; series about a stop are in `stop_series`."""
    done = seen.rank_done
    rank = np.arange(fleet.world)

    def counter(a_step: FloatGrid) -> FloatGrid:
        risen = np.concatenate([np.zeros((1, fleet.world)), np.cumsum(a_step, axis=0)])
        found: FloatGrid = risen[done, rank]
        return found

    tokens = TOKENS * times.work
    steps = len(times.wall)
    loss = LOSS_LAST + (LOSS_FIRST - LOSS_LAST) * np.exp(-3.0 * done / max(steps, 1))
    timed = np.where(np.isin(rank, fleet.untimed), 0.0, 1.0)
    told: list[tuple[str, str, FloatGrid]] = [
        (metrics.TRAIN_STEPS.name, "", done.astype(float)),
        (metrics.TRAIN_OWN.name, "", counter(times.own * timed)),
        (metrics.TRAIN_KNOWN_STEPS.name, "", done.astype(float) * timed),
        (metrics.TRAIN_CPU.name, "", counter(times.cpu)),
        (metrics.TRAIN_TOKENS.name, "", counter(tokens)),
        (metrics.TRAIN_SAMPLES.name, "", counter(np.full(tokens.shape, SAMPLES))),
        (metrics.TRAIN_FLOPS.name, "", counter(FLOPS_A_TOKEN * tokens)),
        (metrics.TRAIN_LOSS.name, "", loss),
        *((metrics.TRAIN_PHASE.name, f'phase="{phase}"', counter(seconds))
          for phase, seconds in times.by_phase.items()),
        *((metrics.TRAIN_COLLECTIVE.name, f'group="{group}"', counter(seconds))
          for group, seconds in times.by_group.items()),
        *((metrics.TRAIN_COLLECTIVES.name, f'group="{group}"',
           COLLECTIVES[group] * done.astype(float)) for group in times.by_group),
    ]  # fmt: skip
    info = [
        Block(metrics.RANK_INFO.name, _who(fleet, each), About.RANK,
              np.where(rank == each, 1.0, np.nan)[None, :])
        for each in rank.tolist()
    ]  # fmt: skip
    return [Block(metric, labels, About.RANK, values) for metric, labels, values in told] + info


def _who(fleet: SyntheticFleet, rank: int) -> str:
    return (
        f'attempt="0",cp="0",dp="{rank // fleet.tp % fleet.dp}",ep="0",local_rank="{rank % 8}",'
        f'node="node-{rank // 8}",pid="{1000 + rank}",pp="{int(stage_of(fleet)[rank])}",'
        f'tp="{rank % fleet.tp}",world_size="{fleet.world}"'
    )
