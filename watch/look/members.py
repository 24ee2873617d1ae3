"""The ranks of all live runs, as arrays: the columns of everything that watch looks at."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.findings.finding import Who
from lockstep.analyzer.read.ranks import Labels, last_attempts
from lockstep.analyzer.shapes.labels import page_label
from lockstep.analyzer.stats.peer_groups import same_work

Words = NDArray[np.str_]
Numbers = NDArray[np.int64]


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
    told = [(who, labels) for who, labels in last_attempts(infos) if who.run]
    ranks = [who for who, _ in told]
    names = ("rank", "attempt", "world", "dp", "pp", "tp")
    table = np.array([[getattr(who, name) for name in names] for who in ranks], dtype=np.int64)
    rank, attempt, world, dp, pp, tp = table.reshape(-1, len(names)).T
    runs = _words(who.run for who in ranks)
    return Members(
        run=runs,
        rank=rank,
        node=_words(who.node or labels.get("instance", "") for who, labels in told),
        gpu=np.array([-1 if who.gpu is None else who.gpu for who in ranks], dtype=np.int64),
        uuid=_words(who.uuid for who in ranks),
        attempt=attempt, world=world, dp=dp, pp=pp, tp=tp,
        job=_words(labels.get("job", "") for _, labels in told),
        instance=_words(labels.get("instance", "") for _, labels in told),
        stratum=_strata(runs.tolist(), pp.tolist(), tp.tolist()),
    )  # fmt: skip


def namesakes(
    infos: Iterable[tuple[Labels, float]], up: Callable[[], Iterable[tuple[Labels, float]]]
) -> Mapping[str, tuple[str, ...]]:
    """Runs of which a rank lives twice, as of two programs of one name; and on which nodes.

    Args:
        infos: Series of `lockstep_rank_info`.
        up: Series of `lockstep_rank_up` by job, instance, run and rank; asked where it matters.
    """
    places: dict[tuple[str, str], dict[tuple[str, str], tuple[str, str]]] = {}
    for labels, _ in infos:
        who = page_label(labels, "run"), page_label(labels, "rank")
        process = page_label(labels, "node"), page_label(labels, "pid")
        page = labels.get("job", ""), labels.get("instance", "")
        places.setdefault(who, {})[process] = page
    twice = {who: told for who, told in places.items() if who[0] and len(told) > 1}
    if not twice:
        return {}
    alive = {
        (page_label(labels, "run"), page_label(labels, "rank"), labels.get("job", ""),
         labels.get("instance", ""))
        for labels, value in up() if value == 1
    }  # fmt: skip
    found: dict[str, set[str]] = {}
    for who, told in twice.items():
        living = {page: node for (node, _), page in told.items() if (*who, *page) in alive}
        if len(living) > 1:
            found.setdefault(who[0], set()).update(living.values())
    return {run: tuple(sorted(nodes)) for run, nodes in found.items()}


def _words(texts: Iterable[str]) -> Words:
    return np.array(list(texts), dtype=np.str_)


def _strata(runs: list[str], stages: list[int], parts: list[int]) -> Words:
    places = [((run, stage), part) for run, stage, part in zip(runs, stages, parts, strict=True)]
    names = np.full(len(places), "", dtype=object)
    for ((run, stage), part), columns in same_work(places, np.ones(len(places), bool)).items():
        names[columns] = f"{run} stage {stage}" + ("" if part is None else f" part {part}")
    return _words(names.tolist())


def who_at(members: Members, column: int) -> Who:
    """A rank as somebody a finding is about."""
    gpu = int(members.gpu[column])
    return Who(
        str(members.run[column]), str(members.node[column]), int(members.rank[column]),
        None if gpu < 0 else gpu, None,
    )  # fmt: skip


def clock(unix: float) -> str:
    """A moment for people."""
    return f"{datetime.fromtimestamp(unix, UTC):%H:%M:%S} UTC"
