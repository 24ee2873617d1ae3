"""The page of watch, read: also one that somebody hostile writes names into."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.page import render
from lockstep.watch.kubernetes.shapes import Fault
from lockstep.watch.kubernetes.watch_page import PageError, fault_id, parse_page

UP = m.PROMETHEUS_UP(1)
NAMES = st.text(max_size=20)


def _finding(run: str, node: str, rank: str, gpu: str, cause: str = "xid", tier: str = "page"):  # type: ignore[no-untyped-def]
    return m.FINDING_ACTIVE(1, run, node, rank, gpu, "", cause, tier, "slow", "")


@given(run=NAMES, node=NAMES.filter(bool), rank=NAMES, gpu=NAMES)
def test_what_watch_says_arrives_whatever_the_names(
    run: str, node: str, rank: str, gpu: str
) -> None:
    samples = [m.NODE_SCRAPED(7.5, node), m.NODE_HEALTH(0.5, node), UP]
    page = render([_finding(run, node, rank, gpu), *samples])

    found = parse_page(page)

    assert [(run, rank, gpu)] == [(one.run, one.rank, one.gpu) for one in found.faults[node]]
    assert {node: 7.5} == found.heard
    assert {node} == found.looked


def test_a_page_says_when_it_judged() -> None:
    page = render([m.LAST_EVALUATION(1000.0), m.DATA_AGE(3.0), UP, m.CYCLES(7)])

    found = parse_page(page)

    assert (1000.0, 3.0, True) == (found.judged, found.data_age, found.answered)


def test_before_its_first_cycle_watch_has_judged_nothing() -> None:
    assert -math.inf == parse_page(render([m.PROMETHEUS_UP(0)])).judged


@pytest.mark.parametrize(
    "finding",
    [
        _finding("r", "", "1", ""),  # a run, and nobody in it
        _finding("r", "n", "1", "", tier="record"),
        _finding("r", "n", "1", "", cause="gc"),
        _finding("r", "n", "1", "", cause="a word of tomorrow"),
    ],
)
def test_what_is_no_statement_about_a_node_is_left_out(finding: m.Sample) -> None:
    assert {} == parse_page(render([finding, UP])).faults


def test_a_finding_has_one_name_and_two_findings_have_two() -> None:
    labels = {"run": "r", "node": "n", "rank": "1", "gpu": "", "link": "", "cause": "ecc"}

    assert fault_id(labels) == fault_id({**labels, "tier": "page"})
    assert fault_id(labels) != fault_id({**labels, "rank": "", "gpu": "1"})
    assert fault_id(labels) != fault_id({**labels, "run": "r\0n"})


@pytest.mark.parametrize(
    "page", ["", "<html>", "lockstep_analyzer_prometheus_up one\n", "lockstep_finding_active{"]
)
def test_what_is_no_page_of_watch_is_told(page: str) -> None:
    with pytest.raises(PageError):
        parse_page(page)


@given(st.text(max_size=300))
def test_any_text_is_a_page_or_no_page(text: str) -> None:
    try:
        parse_page("lockstep_finding_active{" + text)
    except PageError:
        return


def test_a_fault_keeps_what_people_need() -> None:
    page = render([_finding("gpt", "n", "12", "3", cause="thermal"), UP])

    (one,) = parse_page(page).faults["n"]

    assert Fault(one.id, "thermal", "gpt", "12", "3", "") == one
