"""Operations as arrays: what every worker did in every step, one row an operation."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a run divides its model and its data; `rank = (pp · DP + dp) · TP + tp`.

    Attributes:
        dp: Data-parallel replicas.
        pp: Pipeline stages.
        tp: Ranks that a worker folds into one.
        dsp: Extra split of data parallel.
        vpp: Chunks (virtual stages) of the model in each stage.
    """

    dp: int = 1
    pp: int = 1
    tp: int = 1
    dsp: int = 1
    vpp: int = 1

    @property
    def world(self) -> int:
        """All ranks."""
        return self.dp * self.pp * self.tp * self.dsp

    @property
    def workers(self) -> int:
        """Cells of (dp, stage)."""
        return self.dp * self.pp


@dataclass(frozen=True, slots=True)
class Trace:
    """The operations of a run, K of them in a step of one replica, on D replicas and S steps.

    Every replica and step has the same K operations; steps with others were left out when it was
    loaded (`missing` says so). Operations stand by stage, then as the first replica began them in
    the first step.

    Attributes:
        name: The run.
        layout: Its parts.
        steps: (S,) numbers of the steps, rising, perhaps with gaps.
        optype: (K,) names of contract words.OPS, as `forward-compute`.
        seq: (K,) number among the operations of the same type, step and worker.
        stage: (K,) pipeline stage.
        chunk: (K,) chunk inside the stage, -1 = none.
        global_chunk: (K,) chunk of the whole model, -1 = none.
        micro_batch: (K,) -1 = none or not known.
        start: (K, D, S) seconds since the step began; of a collective, the arrival.
        duration: (K, D, S) seconds, at least 0; the end is start + duration.
        ranks: (D, P) the first rank of each worker.
        observed: (S,) seconds of a step as the run itself counted them; None = from the start of
            its first operation to the end of its last. Where ranks do not begin a step together,
            neighbouring steps overlap, and the latter is too long.
        clock_error: Seconds within which the clocks of the ranks agree; 0 = one clock, or not
            reported.
        coverage: Share of the traced steps that are here, 0 to 1.
        missing: What is not here, in words.
    """

    name: str
    layout: Layout
    steps: Ints
    optype: NDArray[np.str_]
    seq: Ints
    stage: Ints
    chunk: Ints
    global_chunk: Ints
    micro_batch: Ints
    start: Floats
    duration: Floats
    ranks: Ints
    observed: Floats | None = None
    clock_error: float = 0.0
    coverage: float = 1.0
    missing: tuple[str, ...] = field(default=())

    @property
    def end(self) -> Floats:
        """(K, D, S) seconds since the step began."""
        return self.start + self.duration

    def of(self, *optypes: str) -> Flags:
        """(K,) which operations have one of these types."""
        flags: Flags = np.isin(self.optype, optypes)
        return flags

    def worker(self, dp: int, stage: int) -> int:
        """The first rank of a worker."""
        return int(self.ranks[dp, stage])


# The program of every pipeline stage: what it does in a step, in order.
#
# 1F1B (Narayanan et al. 2019, arXiv 1806.03377) and, with several chunks a stage, Megatron-LM's
# interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473).


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation to come.

    Attributes:
        optype: Its type.
        chunk: Chunk inside the stage, -1 = none.
        micro_batch: -1 = none.
    """

    optype: str
    chunk: int = -1
    micro_batch: int = -1


def program(stage: int, pp: int, vpp: int, micro_batches: int, *, dp: int) -> list[Planned]:
    """One step of a stage.

    Raises:
        ValueError: Interleaving needs micro-batches in multiples of the stages.
    """
    if vpp > 1 and micro_batches % pp:
        raise ValueError(f"{micro_batches} micro-batches do not divide by {pp} stages")
    found = [Planned("params-all-gather", chunk) for chunk in range(vpp) if dp > 1]
    for direction, chunk, micro_batch in _passes(stage, pp, vpp, micro_batches):
        place = chunk * pp + stage
        first, last = place == 0, place == pp * vpp - 1
        receives, sends = (not first, not last) if direction == "forward" else (not last, not first)
        if receives:
            found.append(Planned(f"{direction}-recv", chunk, micro_batch))
        found.append(Planned(f"{direction}-compute", chunk, micro_batch))
        if sends:
            found.append(Planned(f"{direction}-send", chunk, micro_batch))
    found += [Planned("gc"), Planned("layernorm-grads-all-reduce")]
    if pp > 1 and stage in (0, pp - 1):
        found.append(Planned("embedding-grads-all-reduce"))
    found += [Planned("grads-reduce-scatter", chunk) for chunk in range(vpp) if dp > 1]
    return [*found, Planned("optimizer-clip-main-grad"), Planned("optimizer")]


def _passes(stage: int, pp: int, vpp: int, micro_batches: int) -> Iterator[tuple[str, int, int]]:
    """Forward and backward passes: as many forwards ahead as the stage is from the end."""
    total = micro_batches * vpp
    ahead = (pp - stage - 1) * 2 + (vpp - 1) * pp if vpp > 1 else pp - stage - 1
    ahead = min(ahead, total)
    for number in range(ahead):
        yield _pass("forward", number, pp, vpp)
    for number in range(total - ahead):
        yield _pass("forward", number + ahead, pp, vpp)
        yield _pass("backward", number, pp, vpp)
    for number in range(total - ahead, total):
        yield _pass("backward", number, pp, vpp)


def _pass(direction: str, number: int, pp: int, vpp: int) -> tuple[str, int, int]:
    """Interleaved: as many micro-batches as stages through a chunk, then the next chunk."""
    if vpp == 1:
        return direction, 0, number
    turn, inside = divmod(number, pp * vpp)
    chunk, micro_batch = divmod(inside, pp)
    chunk = chunk if direction == "forward" else vpp - 1 - chunk
    return direction, chunk, turn * pp + micro_batch
