"""Who the ranks of all live runs are, as arrays: the columns of everything that is watched."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from analyzer.readers.prometheus.labels import number, page_label
from analyzer.slowness.peer_groups import MAJORITY

Labels = Mapping[str, str]
Words = NDArray[np.str_]
Numbers = NDArray[np.int64]

NUMBERS = ("attempt", "world_size", "dp", "pp", "tp")


@dataclass(frozen=True)
class Members:
    """(R,) each, by run and rank.

    Attributes:
        gpu: -1 = none.
        uuid: Empty = none.
        job, instance: The target whose page tells of the rank.
        stratum: Name of the ranks that must behave alike: same run, stage and tensor-parallel part;
            the whole stage where such a part has too few.
    """

    run: Words
    rank: Numbers
    node: Words
    gpu: Numbers
    uuid: Words
    attempt: Numbers
    world: Numbers
    dp: Numbers
    pp: Numbers
    tp: Numbers
    job: Words
    instance: Words
    stratum: Words

    def __len__(self) -> int:
        return len(self.rank)

    @cached_property
    def column(self) -> Mapping[tuple[str, int], int]:
        """(run, rank) -> column."""
        pairs = zip(self.run.tolist(), self.rank.tolist(), strict=True)
        return {pair: column for column, pair in enumerate(pairs)}

    @cached_property
    def columns_of_uuid(self) -> Mapping[str, list[int]]:
        """The columns of each uuid: those that work on this GPU."""
        found: dict[str, list[int]] = {}
        for column, uuid in enumerate(self.uuid.tolist()):
            if uuid:
                found.setdefault(uuid, []).append(column)
        return found

    @cached_property
    def columns_of_run(self) -> Mapping[str, Numbers]:
        """The columns of each run, in rank order."""
        runs, first = np.unique(self.run, return_index=True)
        ends = [*first.tolist(), len(self.run)][1:]
        return {
            str(run): np.arange(begin, end)
            for run, begin, end in zip(runs.tolist(), first.tolist(), ends, strict=True)
        }

    @property
    def runs(self) -> tuple[str, ...]:
        """Every run, by name."""
        return tuple(self.columns_of_run)


def members(infos: Iterable[tuple[Labels, float]]) -> Members:
    """From series of `lockstep_rank_info`; of several attempts of a rank the last counts."""
    latest: dict[tuple[str, int], tuple[Labels, tuple[int, ...]]] = {}
    for labels, _ in infos:
        run, rank = labels.get("run", ""), number(labels, "rank")
        if not run or rank is None:
            continue
        numbers = tuple(number(labels, name) or 0 for name in NUMBERS)
        known = latest.get((run, rank))
        if known is None or numbers[0] >= known[1][0]:
            latest[run, rank] = labels, numbers
    keys = sorted(latest)
    rows = [latest[key] for key in keys]
    table = np.array([numbers for _, numbers in rows], dtype=np.int64).reshape(-1, len(NUMBERS))
    attempt, world, dp, pp, tp = table.T
    gpus = [number(labels, "gpu") for labels, _ in rows]
    runs = _words(name for name, _ in keys)
    return Members(
        run=runs,
        rank=np.array([rank for _, rank in keys], dtype=np.int64),
        node=_words(page_label(labels, "node") or labels.get("instance", "") for labels, _ in rows),
        gpu=np.array([-1 if gpu is None else gpu for gpu in gpus], dtype=np.int64),
        uuid=_words(page_label(labels, "uuid") for labels, _ in rows),
        attempt=attempt, world=world, dp=dp, pp=pp, tp=tp,
        job=_words(labels.get("job", "") for labels, _ in rows),
        instance=_words(labels.get("instance", "") for labels, _ in rows),
        stratum=_strata(runs.tolist(), pp.tolist(), tp.tolist()),
    )  # fmt: skip


def _words(texts: Iterable[str]) -> Words:
    return np.array(list(texts), dtype=np.str_)


def _strata(runs: list[str], stages: list[int], parts: list[int]) -> Words:
    places = list(zip(runs, stages, parts, strict=True))
    ranks = Counter(places)
    small = {(run, stage) for (run, stage, _), count in ranks.items() if count < MAJORITY}
    return _words(
        f"{run} stage {stage}" if (run, stage) in small else f"{run} stage {stage} part {part}"
        for run, stage, part in places
    )
