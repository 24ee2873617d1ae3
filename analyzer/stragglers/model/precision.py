"""What a way of observing own time can show: windows of steps, or single operations."""

from dataclasses import dataclass, replace

import numpy as np

from lockstep.analyzer.stats.changepoint import BLOCK_STEPS_AT_LEAST, BLOCKS_AT_LEAST, NOISE_FLOOR
from lockstep.analyzer.stats.significance import (
    FLOOR,
    PARTS_AT_MOST,
    RECORDED,
    STEPS_AT_LEAST,
    TRANSIENT_FLOOR,
    TRANSIENT_SHARE,
    TRANSIENT_STEPS,
    WAKES_BY_BOUND,
)


@dataclass(frozen=True, slots=True)
class Precision:
    """How small, short and early an effect can be and still be told from chance and from design.

    Attributes:
        floor: The smallest log slowdown of a rank that is recorded.
        node_floor: The same of a node.
        transient_floor: Of what came and went.
        steps: That a slowdown lasts at least.
        transient_steps: That one lasts at least which came and went.
        transient_share: Of all steps, that this one lasts at least, where it is not known to have
            cost as much of them as is recorded.
        block_steps: That are taken together at least.
        noise: Log noise of a block is never taken as smaller.
        parts: The most, as a log, that one of several identical parts is slower from the first step
            on; None = what the others show.
        pooled: Whether there are so few blocks that only those of all together tell the noise of
            one, which they must share.
        host: Whether own time holds what the host does, as loading data.
    """

    floor: float
    node_floor: float
    transient_floor: float
    steps: float
    transient_steps: float
    transient_share: float
    block_steps: float
    noise: float
    parts: float | None
    pooled: bool = False
    host: bool = False

    def long_enough(self, steps: float, total: float, *, ended: bool, lost: float = 0.0) -> bool:
        """Whether somebody was slow for long enough to be named.

        Args:
            steps: For how many.
            total: Those of the run.
            ended: Whether it came and went: then it needs a share of the run, or to have cost as
                much of it as is recorded.
            lost: Share of a step that it cost meanwhile, where that is known.
        """
        if not ended:
            return steps >= self.steps
        costly = lost * steps >= RECORDED * total
        return steps >= self.transient_steps and (costly or steps >= self.transient_share * total)


WINDOWS = Precision(
    floor=FLOOR,
    # It is shared by several ranks, and a page needs as much of the step in any case.
    node_floor=float(np.log1p(WAKES_BY_BOUND)),
    transient_floor=TRANSIENT_FLOOR,
    steps=STEPS_AT_LEAST,
    transient_steps=TRANSIENT_STEPS,
    transient_share=TRANSIENT_SHARE,
    block_steps=BLOCK_STEPS_AT_LEAST,
    noise=NOISE_FLOOR,
    parts=PARTS_AT_MOST,
    host=True,
)
"""Own time of ranks, with all that the host does in it (docs/method/peers.md)."""

EXCHANGES = replace(WINDOWS, host=False, parts=None)
"""Exchanges inside groups, beside the usual step, of which parts may differ by less than by own
time."""

_ONE_PERCENT = float(np.log1p(RECORDED))
"""Recorded from 1 to 2 % of a worker's own time on (docs/method/peers.md)."""
_STALL = BLOCKS_AT_LEAST
"""Slow steps in a row, each a block; one stall of a scheduler or a collector of garbage is no slow
worker."""

OPERATIONS = Precision(
    floor=_ONE_PERCENT,
    node_floor=_ONE_PERCENT,
    transient_floor=_ONE_PERCENT,
    steps=_STALL,
    transient_steps=_STALL,
    transient_share=0.0,
    block_steps=1,
    noise=0.0005,  # the clocks of traces are no better
    parts=None,
)
"""Computations alone, by which healthy workers of a public trace differ by 0.5 % (measured)."""

STEP_TIMES = replace(OPERATIONS, transient_share=TRANSIENT_SHARE)
"""Steps of a trace: what no worker computes is in them as well, and a few long ones are a pause."""

_FILE_SYSTEM = float(np.log(1.3))
"""Writers to one file system differ by less: by its servers, and by what else is written."""

WRITES = Precision(
    floor=_FILE_SYSTEM,
    node_floor=_FILE_SYSTEM,
    transient_floor=_FILE_SYSTEM,
    steps=2,  # a single one may meet a busy file system
    transient_steps=2,
    transient_share=TRANSIENT_SHARE,
    block_steps=1,
    noise=0.02,  # file systems are no steadier
    parts=_FILE_SYSTEM,
    pooled=True,
)
"""Seconds of each checkpoint that a rank writes."""

_FEW_TOGETHER = float(np.log(1.4))
"""Chosen: what one window too many or too few holds of a few writes is below it."""

SHARED_WINDOWS = replace(
    WRITES, floor=_FEW_TOGETHER, node_floor=_FEW_TOGETHER, transient_floor=_FEW_TOGETHER,
    parts=_FEW_TOGETHER, steps=3, transient_steps=3,
)  # fmt: skip
"""Seconds of a few checkpoints in a row, where windows are no shorter than the time between two."""
