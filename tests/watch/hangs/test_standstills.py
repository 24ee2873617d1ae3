"""Runs that stand still, over a simulated Prometheus and collectors of constructed hangs."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lockstep.analyzer.hangs.verdict import Status
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.access import access
from lockstep.collector.contract.stacks import Frame, Reader, Stacks, Thread
from lockstep.watch.hangs import standstills as standing
from lockstep.watch.hangs.stacks import Stood
from lockstep.watch.hangs.standing import limit
from lockstep.watch.hangs.standstills import Standstills
from lockstep.watch.judge.runs import Progress
from lockstep.watch.settings import Settings
from tests.hang_programs import Case, Layout, hang
from tests.watch.fake_prometheus import FakePrometheus
from tests.watch.node_collectors import (
    OLDER,
    Answering,
    answer,
    collectors,
    of_case,
    rank_part,
)

PATIENCE_SECONDS = 60.0


class Silent(FakePrometheus):
    """Tells for how long runs are silent, and for how long they have been before."""

    def __init__(self) -> None:
        super().__init__()
        self.silences: dict[str, float] = {}
        self.before: float | None = 0.0

    def answer(self, path, words):
        if self.before is None and words.get("query", "").startswith("max_over_time"):
            return 503, b"too many questions"
        return super().answer(path, words)

    def _instant(self, query, time):
        if query in (ask.SILENCE, ask.QUIET):
            return [({"run": run}, seconds) for run, seconds in self.silences.items()]
        if query.startswith("max_over_time"):
            return [({}, self.before)]
        return super()._instant(query, time)


@pytest.fixture
def told(server) -> Iterator[Silent]:
    fake = Silent()
    server[1].append(fake)
    yield fake
    server[1].remove(fake)


@pytest.fixture
def still(server, told, tmp_path) -> Iterator[Callable[..., Standstills]]:
    """`still({run: [collector, ...]})`: what notices runs of these collectors; `.woken` is how
    often a cycle was wanted."""
    with ExitStack() as stack:

        def make(nodes: dict[str, list[Answering]]) -> Standstills:
            for one in (each for some in nodes.values() for each in some):
                if not one.target[1]:
                    stack.enter_context(collectors(one))
            known = {run: Progress(1000.0, 0.0, step_seconds=0.5) for run in nodes}
            woken: list[int] = []
            made = Standstills(
                Settings(access(server[0], {}), tmp_path / "out", None),
                lambda run: [one.target for one in nodes[run]],
                lambda: known,
                lambda: woken.append(1),
            )
            made.woken = woken
            stack.callback(made.stop)
            return made

        yield make


def looked(still: Standstills) -> None:
    """Once, and until all that stands was judged."""
    still.look()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(one.judging for one in still._runs.values()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def case_of(fault: str = "host-stopped", seed: int = 3) -> Case:
    return hang(seed, fault, Layout(4, 1, 1))


def nodes_of(case: Case, run: str = "gpt-1", **more) -> list[Answering]:
    return [Answering(of_case(case, some, run, **more)) for some in ((0, 1), (2, 3))]


def test_a_run_that_stands_is_judged_by_the_dumps_of_all_its_nodes(still, told, tmp_path):
    case = case_of()
    found = still({"gpt-1": nodes_of(case)})
    told.silences = {"gpt-1": 10.0}
    looked(found)
    assert not found.standing()

    told.silences = {"gpt-1": 31.0}
    looked(found)

    one = found.standing()["gpt-1"]
    assert ([case.rank], Status.HANG) == ([each.rank for each in one.culprits], one.status)
    assert (True, True, [case.rank]) == (one.hangs, one.final, one.hang["missing_ranks"])
    assert [1] == found.woken
    place = tmp_path / "dumps"
    assert found.keep("gpt-1", place)
    assert {"evidence.json", "hang.json"} < {path.name for path in place.iterdir()}
    assert one.hang["op"] == json.loads((place / "hang.json").read_text())["operation"]["op"]


def test_where_the_blamed_rank_stands_is_in_the_sentence_and_kept(
    still, told, tmp_path, monkeypatch
):
    case = case_of()
    frames = (Frame("load_sample", "/job/data.py", 41),)
    stood = Stacks(
        case.rank,
        "node-0",
        7,
        "S",
        1e9,
        Reader.PY_SPY,
        threads=(Thread(7, "", True, None, frames),),
    )
    asked = []

    def fetch(pages, run, ranks, seconds):
        asked.append((run, ranks))
        return Stood([stood])

    monkeypatch.setattr("lockstep.watch.hangs.stacks.fetch", fetch)
    found = still({"gpt-1": nodes_of(case)})
    told.silences = {"gpt-1": 31.0}
    looked(found)

    assert [("gpt-1", case.rank)] == [(run, ranks[0]) for run, ranks in asked]
    one = found.standing()["gpt-1"]
    assert one.sentence.endswith(f" Rank {case.rank} stands in `load_sample` (data.py:41).")
    assert found.keep("gpt-1", tmp_path / "dumps")
    assert (tmp_path / "dumps" / "stacks.json").exists()
    tree = json.loads((tmp_path / "dumps" / "hang.json").read_text())
    assert 41 == tree["stacks"]["ranks"][0]["blamed_line"]["line"]


def test_a_run_may_be_silent_for_thrice_as_long_as_it_ever_was(still, told):
    nodes = nodes_of(case_of(), progress_age=121.0)
    found, told.before = still({"gpt-1": nodes}), 40.0

    told.silences = {"gpt-1": 119.0}
    looked(found)
    assert [] == nodes[0].asked

    told.silences = {"gpt-1": 121.0}
    looked(found)
    assert found.standing()["gpt-1"].hangs


def test_what_prometheus_alone_remembers_may_have_been_a_hang(still, told):
    found, told.before = still({"gpt-1": nodes_of(case_of())}), 600.0
    told.silences = {"gpt-1": 10.0}
    looked(found)

    assert 540.0 == pytest.approx(limit(found.longest()["gpt-1"]))


def test_what_it_learns_is_what_it_ended_by_itself(still, told):
    found = still({"gpt-1": nodes_of(case_of())})
    for silence in (25.0, 0.0):
        told.silences = {"gpt-1": silence}
        told.now += 30.0
        looked(found)
    assert {"gpt-1": 25.0} == found.longest()

    told.silences, told.now = {"gpt-1": 80.0}, told.now + 80.0
    looked(found)
    assert found.standing()["gpt-1"].hangs
    told.silences, told.now = {"gpt-1": 0.0}, told.now + 80.0
    looked(found)

    assert ({}, {"gpt-1": 25.0}) == (found.standing(), found.longest())


@pytest.mark.parametrize("phase", ["eval", "checkpoint"])
def test_an_evaluation_or_a_checkpoint_is_no_hang_until_torch_would_give_up(still, told, phase):
    case = case_of("data-loader")
    case.facts.clear()
    nodes = nodes_of(case, phase=phase)
    found = still({"gpt-1": nodes})
    told.silences = {"gpt-1": 100.0}
    looked(found)

    assert ({}, {"gpt-1"}) == (found.standing(), found.excused())

    for one, ranks in zip(nodes, ((0, 1), (2, 3)), strict=True):
        one.body = of_case(case, ranks, phase=phase, progress_age=541.0)
    found._runs["gpt-1"].due = 0.0
    told.silences = {"gpt-1": 541.0}
    looked(found)

    assert found.standing()["gpt-1"].hangs
    assert not found.excused()


def test_who_went_on_since_the_scrape_does_not_stand(still, told):
    found = still({"gpt-1": nodes_of(case_of(), progress_age=0.2)})
    told.silences = {"gpt-1": 45.0}
    looked(found)

    assert {} == found.standing()


@pytest.mark.parametrize(
    "node",
    [Answering(OLDER, 404), Answering(b"<html>"), Answering(b"", 500),
     Answering(answer([rank_part(0, None, why="it did not answer")]))],
)  # fmt: skip
def test_without_dumps_nobody_is_named_and_the_run_is_told_of_the_second_time(
    still, told, node, monkeypatch
):
    monkeypatch.setattr(standing, "AGAIN_SECONDS", 0.0)
    found = still({"gpt-1": [node]})
    told.silences = {"gpt-1": 40.0}
    looked(found)
    first = found.standing()["gpt-1"]
    looked(found)
    second = found.standing()["gpt-1"]
    looked(found)

    assert (False, True) == (first.hangs, second.hangs)
    assert (None, ()) == (second.status, second.culprits)
    assert "the dumps do not show who stopped it" in second.sentence
    assert second.lacks
    assert 2 == len(node.asked)


def test_a_node_that_does_not_answer_is_told_and_the_others_are_judged(still, told, monkeypatch):
    monkeypatch.setattr(standing, "fetch", lambda *words: standing_fetch(*words, seconds=2.0))
    case = case_of()
    here = [rank for rank in range(4) if rank != case.rank]
    slow = Answering(b"", seconds=6.0)
    found = still({"gpt-1": [Answering(of_case(case, here)), slow]})
    told.silences = {"gpt-1": 40.0}
    looked(found)

    one = found.standing()["gpt-1"]
    assert [case.rank] == [each.rank for each in one.culprits]
    assert any(slow.page in why for why in one.lacks)


standing_fetch = standing.fetch


def test_two_runs_that_hang_at_once_are_both_judged(still, told):
    cases = {"gpt-1": case_of(), "gpt-2": case_of(seed=8)}
    found = still({run: nodes_of(case, run) for run, case in cases.items()})
    told.silences = dict.fromkeys(cases, 40.0)
    looked(found)

    assert {run: [case.rank] for run, case in cases.items()} == {
        run: [each.rank for each in one.culprits] for run, one in found.standing().items()
    }


def test_a_watch_that_starts_in_the_middle_of_a_hang_judges_it(still, told):
    nodes = {"gpt-1": nodes_of(case_of())}
    told.silences = {"gpt-1": 200.0}
    first = still(nodes)
    looked(first)
    first.stop()
    second = still(nodes)
    second._known = lambda: {"gpt-1": Progress(1000.0, 0.0)}  # no step since it came
    looked(second)

    assert second.standing()["gpt-1"].hangs


def test_dumps_that_no_archive_has_go_with_the_watch(still, told, tmp_path):
    found = still({"gpt-1": nodes_of(case_of())})
    told.silences = {"gpt-1": 40.0}
    looked(found)
    found.stop()

    assert [] == [*(tmp_path / "out").rglob("dump_*")]


def test_a_run_that_is_yet_to_make_a_step_may_take_its_time(still, told):
    nodes = nodes_of(case_of())
    found = still({"gpt-1": nodes})
    found._known = lambda: {"gpt-1": Progress(0.0, 0.0, begun=5.0)}
    told.silences = {"gpt-1": 400.0}
    looked(found)

    assert [] == nodes[0].asked


HUNG = {"gpt-1": 40.0}
"""Runs that are silent for longer than they may be."""


def hung(still: Callable[..., Standstills], told: Silent) -> Standstills:
    """A run that hangs, and was judged."""
    found = still({"gpt-1": nodes_of(case_of())})
    told.silences = dict(HUNG)
    looked(found)
    assert found.standing()["gpt-1"].hangs
    return found


@pytest.mark.parametrize("after", [{}, {"gpt-1": 0.0}], ids=["killed", "went-on"])
def test_dumps_wait_for_their_archives_when_the_run_stands_no_more(still, told, tmp_path, after):
    found = hung(still, told)
    told.silences, told.now = after, told.now + 60.0
    looked(found)

    assert {} == found.standing()
    for name in ("first", "second"):  # two findings of one run
        assert found.keep("gpt-1", tmp_path / name)
        assert (tmp_path / name / "hang.json").exists()
    found.stop()
    assert not found.keep("gpt-1", tmp_path / "late")
    assert [] == [*(tmp_path / "out").rglob("dump_*")]


def test_dumps_of_a_run_that_is_gone_do_not_wait_for_ever(still, told, tmp_path, monkeypatch):
    monkeypatch.setattr(standing, "LEFT_SECONDS", 0.0)
    found = hung(still, told)
    told.silences = {}
    looked(found)

    assert not found.keep("gpt-1", tmp_path / "late")
    assert [] == [*(tmp_path / "out").rglob("dump_*")]


def test_dumps_of_a_second_hang_replace_those_of_the_first(still, told, tmp_path):
    found = hung(still, told)
    for silences in ({}, HUNG, {}):
        told.silences = dict(silences)
        looked(found)

    assert found.keep("gpt-1", tmp_path / "dumps")
    assert 1 == len([*(tmp_path / "out").rglob("hang.json")])


def test_nobody_waits_for_dumps_that_are_copied_slowly(still, told, tmp_path, monkeypatch):
    found = hung(still, told)
    begun, go_on, copy = threading.Event(), threading.Event(), shutil.copytree

    def slow(*words):
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return copy(*words)

    monkeypatch.setattr(shutil, "copytree", slow)
    with ThreadPoolExecutor(1) as pool:
        kept = pool.submit(found.keep, "gpt-1", tmp_path / "dumps")
        assert begun.wait(PATIENCE_SECONDS)
        told_now = threading.Thread(target=found.standing, daemon=True)
        told_now.start()
        told_now.join(PATIENCE_SECONDS / 2)
        waits = told_now.is_alive()
        go_on.set()
        assert kept.result()
    assert not waits


def test_dumps_that_go_while_they_are_copied_are_not_kept_in_part(
    still, told, tmp_path, monkeypatch
):
    found = hung(still, told)
    copy = shutil.copytree

    def removed_meanwhile(*words):
        made = copy(*words)
        found.stop()
        return made

    monkeypatch.setattr(shutil, "copytree", removed_meanwhile)
    with pytest.raises(OSError, match="went while they were copied"):
        found.keep("gpt-1", tmp_path / "dumps")
    assert [] == [*tmp_path.rglob("dump_*")]


@pytest.mark.parametrize("after", [{}, {"gpt-1": 0.0}], ids=["ended", "went-on"])
def test_nothing_is_told_of_a_run_that_ended_or_went_on_while_it_was_judged(
    still, told, tmp_path, monkeypatch, after
):
    found = still({"gpt-1": nodes_of(case_of())})

    def fetch(*words):
        collected = standing_fetch(*words)
        told.silences, told.now = after, told.now + 60.0
        found.look()
        return collected

    monkeypatch.setattr(standing, "fetch", fetch)
    told.silences = dict(HUNG)
    one = judged_by_hand(found, monkeypatch)

    assert (None, False, {}) == (one.standing, one.judging, found.standing())
    assert [] == found.woken
    assert [] == [*(tmp_path / "out").rglob("dump_*")]


def test_dumps_under_way_go_with_the_watch(still, told, tmp_path, monkeypatch):
    found = still({"gpt-1": nodes_of(case_of())})
    left = []

    def fetch(*words):
        collected = standing_fetch(*words)
        found.stop()
        left.extend((tmp_path / "out").rglob("dump_*"))
        return collected

    monkeypatch.setattr(standing, "fetch", fetch)
    told.silences = dict(HUNG)
    judged_by_hand(found, monkeypatch)

    assert ([], {}) == (left, found.standing())
    assert [] == [*(tmp_path / "out").rglob(".under-way-*")]


def judged_by_hand(found: Standstills, monkeypatch) -> standing._Run:
    """Notice the run, and judge it in this thread."""
    with monkeypatch.context() as patched:
        patched.setattr(found, "_stands", lambda *_: False)
        found.look()
    one = found._runs["gpt-1"]
    one.judging = True
    found._judge("gpt-1", found._known()["gpt-1"], found_now(one))
    return one


def found_now(one: standing._Run) -> float:
    return one.since + HUNG["gpt-1"]


def test_a_run_whose_past_is_not_told_is_not_judged_until_it_is(still, told):
    runs = ("gpt-1", "gpt-2")
    nodes = {run: nodes_of(case_of(), run, progress_age=121.0) for run in runs}
    found = still(nodes)
    told.before, told.silences = None, dict.fromkeys(runs, 50.0)
    looked(found)
    assert ({}, {}, []) == (found.longest(), found.standing(), nodes["gpt-1"][0].asked)

    told.before = 40.0
    looked(found)
    assert (dict.fromkeys(runs, 40.0), {}) == (found.longest(), found.standing())
    assert [] == nodes["gpt-1"][0].asked
