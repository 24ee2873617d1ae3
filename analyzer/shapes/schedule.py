"""The program of every pipeline stage: what it does in a step, in order.

1F1B (Narayanan et al. 2019, arXiv 1806.03377) and, with several chunks a stage, Megatron-LM's
interleaved 1F1B (Narayanan et al. 2021, arXiv 2104.04473).
"""

from collections.abc import Iterator
from dataclasses import dataclass


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
