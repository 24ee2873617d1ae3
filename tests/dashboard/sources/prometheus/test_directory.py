"""A run that was started again on the nodes of one that died: the living one is shown."""

from collections.abc import Mapping

from lockstep.collector.contract import metrics as m
from lockstep.dashboard.sources.prometheus.directory import Directory, living_last
from lockstep.dashboard.sources.prometheus.fleet import places

PAGE = {"job": "lockstep", "instance": "a:9410"}


class Answers:
    """One page: a run that is dead, and one that lives on the same GPUs, in either order."""

    def __init__(self, runs: tuple[str, ...], up: Mapping[str, float]) -> None:
        self.runs, self.up = runs, up

    def instant(self, query: str, at: float) -> list[tuple[Mapping[str, str], float]]:
        del at
        told = [{**PAGE, "run": run, "rank": str(rank)} for run in self.runs for rank in range(2)]
        if m.RANK_UP.name in query:
            return [(labels, self.up[labels["run"]]) for labels in told]
        if m.RANK_INFO.name in query:
            return [({**labels, "gpu": labels["rank"], "pp": "0"}, 1.0) for labels in told]
        return [({**PAGE, "gpu": str(gpu)}, 1.0) for gpu in range(2)]


def test_of_two_runs_on_the_same_gpus_the_living_one_stands_on_the_map() -> None:
    nodes = Directory(("a",), {"a": (("lockstep", "a:9410"),)}, {("lockstep", "a:9410"): "a"}, {})

    for runs in (("dead", "new"), ("new", "dead")):
        found = places(Answers(runs, {"dead": 0.0, "new": 1.0}), nodes, 0.0)  # type: ignore[arg-type]

        assert ["new", "new"] == found.runs.tolist()
        assert [0, 1] == found.ranks.tolist()


def test_who_is_told_to_be_gone_comes_before_who_is_not_told_at_all() -> None:
    rows = [({**PAGE, "run": run, "rank": "0"}, 1.0) for run in ("b", "a")]
    answers = Answers(("a",), {"a": 0.0})

    assert ["a", "b"] == [
        labels["run"]
        for labels, _ in living_last(answers, rows, 0.0)  # type: ignore[arg-type]
    ]
