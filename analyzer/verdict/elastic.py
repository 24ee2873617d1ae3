"""A run that goes on with fewer ranks, as torchrun lets it: it is judged by the ranks it has."""

from dataclasses import replace

import pandas as pd

from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.run import Run
from lockstep.analyzer.shapes.wording import listed
from lockstep.collector.contract.metrics import RANK_INFO


def of_last_launch(run: Run) -> Run:
    """The run without ranks that its last launch does not have; as it is where it has all.

    By what ranks tell of themselves: the newest attempt, and how many ranks that has. A rank that
    only went, and without which nobody was started again, is missing and stays.
    """
    gone = _left_out(run)
    if not gone:
        return run

    def kept(table: pd.DataFrame) -> pd.DataFrame:
        return table[~table["rank"].isin(gone)].reset_index(drop=True)

    some = f"rank{'s' * (len(gone) > 1)} {listed(sorted(gone))}"
    words = (
        f"the run went on without {some}: its last launch has {len(run.ranks) - len(gone)} ranks,"
        " and is judged by those"
    )
    return replace(
        run,
        ranks=tuple(info for info in run.ranks if info.rank not in gone),
        windows=kept(run.windows),
        samples=kept(run.samples),
        ops=None if run.ops is None else kept(run.ops),
        missing=(
            *run.missing,
            words,
        ),
    )


def _left_out(run: Run) -> set[int]:
    """Ranks of earlier launches that the last one has no place for."""
    if not len(run.samples):
        return set()
    infos = run.samples[run.samples["metric"] == RANK_INFO.name]
    worlds: dict[int, int] = {}
    ranks: dict[int, set[int]] = {}
    known = infos.dropna(subset=["rank", "labels"]).drop_duplicates(["rank", "labels"])
    for rank, labels in zip(known["rank"], known["labels"], strict=True):
        told = parsed(str(labels))
        attempt, world = number(told, "attempt"), number(told, "world_size")
        if attempt is not None and world is not None:
            worlds[attempt] = max(world, worlds.get(attempt, 0))
            ranks.setdefault(attempt, set()).add(int(rank))
    if len(worlds) < 2:
        return set()
    last = max(worlds)
    world = worlds[last]
    if world >= max(worlds.values()) or ranks[last] != set(range(world)):
        return set()
    return {info.rank for info in run.ranks if info.rank >= world}
