"""What the screen says of a look: who is late, and what nobody can say."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.top.look import Answered, Rates
from lockstep.top.screen import Mood, screen
from lockstep.top.text import body, plain
from tests.lockstep.top.looks import RUN, look

LATE = (0.05, 0.05, 0.05, 0.075, 0.05, 0.05, 0.05, 0.05)


def said(told) -> str:
    return " ".join(one.text for one in screen(told).sentences)


def test_the_late_rank_is_named_and_comes_first():
    shown = screen(look(LATE))
    assert shown.sentences[0].mood == Mood.BAD
    assert shown.sentences[0].text == (
        f"{RUN}: rank 3 on node-1 takes 1.50x its peers' own time in the last 60 s; the others"
        " wait for it."
    )
    assert shown.ranks.lines[0].cells[:5] == ("3", "node-1", "1", "75 ms", "1.50x")
    assert shown.nodes.lines[0].cells[0] == "node-1"
    assert shown.ranks.header[-1] == "run"
    assert all(line.cells[-1] for line in shown.ranks.lines)
    assert [one.mood for one in shown.ranks.lines].count(Mood.BAD) == 1


def test_nobody_is_late():
    assert screen(look()).sentences[0].mood == Mood.OK
    assert "no rank is late; all 8 ranks are below 1.10x" in said(look())


def test_own_time_that_is_not_known_is_no_all_clear():
    told = look((None, *[0.05] * 7))
    assert screen(told).sentences[0].mood == Mood.UNKNOWN
    assert "who is late is unknown: 7 of 8 ranks can be compared" in said(told)
    assert screen(told).ranks.lines[-1].cells[4] == "-"


def test_two_ranks_have_no_peers():
    told = look((0.05, 0.09))
    assert "only stages of 3 ranks or more have peers" in said(told)
    assert screen(told).sentences[0].mood == Mood.UNKNOWN


def test_ranks_on_other_pages_are_not_cleared():
    told = look()
    more = [(dict(labels, world_size="64"), value) for labels, value in
            told.gauges["lockstep_rank_info"]]  # fmt: skip
    told = replace(told, gauges={**told.gauges, "lockstep_rank_info": more})
    assert "these pages do not show the other 56" in said(told)
    assert screen(told).sentences[0].mood == Mood.UNKNOWN


def test_before_the_second_look_nothing_is_said_of_lateness():
    told = look(span=0.0, rates={})
    assert "known at the next look" in said(told)
    assert screen(told).sentences[0].mood != Mood.OK


def test_a_node_that_is_silent_is_told_and_its_numbers_are_not_shown():
    told = look(silent=["node-2"])
    shown = screen(told)
    why = "it does not answer in time, last heard 30 s ago"
    assert f"1 of 4 nodes do not answer: node-2 ({why})." in said(told)
    line = next(one for one in shown.nodes.lines if one.cells[0] == "node-2")
    assert line.cells[1:6] == ("-",) * 5
    assert line.mood == Mood.UNKNOWN
    assert "these pages do not show the other 2" in said(told)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f'lockstep_rank_up{{run="{RUN}",rank="0"}} 0', "rank 0 on node-0 is gone"),
        (f'lockstep_train_heartbeat_age_seconds{{run="{RUN}",rank="0"}} 9', "is frozen for 9 s"),
        (f'lockstep_train_progress_age_seconds{{run="{RUN}",rank="0"}} 40', "no progress for 40 s"),
    ],
)
def test_a_rank_that_is_out_comes_before_slow_ones(line: str, words: str):
    told = look(LATE, more=line)
    shown = screen(told)
    assert words in shown.sentences[0].text
    assert shown.ranks.lines[0].cells[0] == "0"
    assert shown.ranks.lines[0].mood == Mood.BAD


def test_a_rank_that_finished_is_not_out():
    lines = "\n".join(
        f'lockstep_rank_up{{run="{RUN}",rank="{rank}"}} 0\n'
        f'lockstep_rank_last_state{{run="{RUN}",rank="{rank}",state="finished"}} 1'
        for rank in range(8)
    )
    assert said(look(more=lines)) == f"{RUN} has finished."


def test_who_is_not_in_the_collective_that_others_wait_in_is_named():
    lines = "\n".join(
        f'lockstep_train_open_operation_age_seconds{{run="{RUN}",rank="{rank}",op="all-reduce",'
        f'group="dp"}} 42'
        for rank in range(8) if rank != 6
    )  # fmt: skip
    told = look(more=lines)
    assert said(told).startswith(
        f"{RUN} stands: 7 of 8 ranks wait in a collective for up to 42 s; not in it: rank 6 on"
        " node-3."
    )


def test_what_watch_names_comes_first_and_its_doubt_is_no_all_clear():
    assert said(look(findings=["lockstep watch names node-3: thermal."])).startswith(
        "lockstep watch names node-3: thermal."
    )
    told = look(findings=[], doubts={RUN: "no fresh diagnosis could judge it"})
    assert "no fresh diagnosis could judge it" in said(told)
    assert screen(told).sentences[0].mood == Mood.UNKNOWN


def test_an_old_scrape_is_told_first_and_nothing_is_green():
    told = look()
    nodes = [Answered(one.node, 864000.0) for one in told.nodes]
    shown = screen(replace(told, nodes=nodes))
    assert [one.text for one in shown.sentences] == [
        "The newest scrape is 864000 s old: all below is from then.",
        f"{RUN}: its present state is unknown.",
    ]
    assert {one.mood for one in (*shown.sentences, *shown.nodes.lines)} == {Mood.UNKNOWN}
    assert {one.cells[-1] for one in shown.nodes.lines} == {"not scraped for 864000 s"}
    assert shown.nodes.title == "Nodes: 0 of 4 answer"


def test_one_node_of_old_leaves_its_run_unknown():
    told = look()
    first, *rest = told.nodes
    shown = screen(replace(told, nodes=[Answered(first.node, 200.0), *rest]))
    assert shown.sentences[0].text == (
        "The newest scrape of 1 of 4 nodes is 200 s old: what is below of them is from then."
    )
    assert Mood.OK not in {one.mood for one in shown.sentences}


def test_a_rank_frozen_inside_a_collective_is_not_in_it():
    lines = "\n".join(
        f'lockstep_train_open_operation_age_seconds{{run="{RUN}",rank="{rank}",op="all-reduce",'
        f'group="dp"}} 20'
        for rank in range(8)
    )  # fmt: skip
    frozen = f'lockstep_train_heartbeat_age_seconds{{run="{RUN}",rank="2"}} 20'
    assert "7 of 8 ranks wait in a collective for up to 20 s; not in it: rank 2 on node-1." in said(
        look(more=f"{lines}\n{frozen}")
    )


def test_a_throttled_and_a_silent_gpu_come_first():
    told = look(more='lockstep_gpu_clock_event_active{gpu="1",uuid="GPU-1",reason="hw_thermal"} 1\n'
                     'lockstep_gpu_up{gpu="0",uuid="GPU-0"} 0')  # fmt: skip
    first, second, *_ = screen(told).gpus.lines
    assert (first.cells[-1], second.cells[-1]) == ("does not answer", "throttled: hw_thermal")
    assert screen(told).gpus.title == "GPUs: 8, all simulated"


def test_nothing_is_there():
    shown = plain(screen(look((), rates={})))
    assert "No run is reported; `lockstep run` starts one." in shown
    assert "No GPU is reported." in shown


def test_a_hostile_name_steers_no_terminal():
    told = look()
    rows = [({**labels, "node": "n\x1b[2J\u202e", "run": "r\nx"}, value)
            for labels, value in told.gauges["lockstep_rank_info"]]  # fmt: skip
    shown = plain(screen(replace(told, gauges={**told.gauges, "lockstep_rank_info": rows})))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "r\\nx" in shown


@pytest.mark.parametrize("width", [30, 80, 200])
def test_no_line_of_a_table_is_wider_than_the_terminal(width: int):
    shown = screen(look(LATE))
    for table in (shown.nodes, shown.ranks, shown.gpus):
        assert max(len(text) for text, _ in body(table, width)) <= width


VALUES = st.one_of(st.none(), st.floats(1e-4, 10.0), st.just(math.nan))


@given(own=st.lists(VALUES, max_size=8), steps=st.lists(VALUES, min_size=8, max_size=8))
def test_any_rates_make_a_screen_and_unknown_ones_no_all_clear(own, steps):
    told = look(tuple(own))
    rates = {
        key: Rates(None if rate.own is None or math.isnan(rate.own) else rate.own, step, None)
        for (key, rate), step in zip(told.rates.items(), steps, strict=False)
    }
    shown = screen(replace(told, rates=rates))
    assert plain(shown)
    if any(one.own is None for one in rates.values()):
        assert not any(one.mood == Mood.OK for one in shown.sentences)
