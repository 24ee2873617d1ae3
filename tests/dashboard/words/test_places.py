"""The first sentence of the pages of the cluster, of a node and of a GPU."""

import shlex
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard import address
from lockstep.dashboard.address import Location
from lockstep.dashboard.figures import deviation, heatmap
from lockstep.dashboard.shapes import Check, FindingRow, FleetSnapshot, NodeFacts, Severity, Span
from lockstep.dashboard.words import places
from tests.dashboard.figures.fleets import fleet


def said(shown: FleetSnapshot, run: str = "") -> tuple[str, Severity]:
    worst = deviation.worst(shown.metric, shown.values, 1)
    named = heatmap.line(shown, int(worst[0])) if worst.size else ""
    told = places.fleet(shown, deviation.of_fleet(shown), named, run)
    return told.text, told.severity


def finding(*, is_open: bool = True, severity: Severity = Severity.CRITICAL) -> FindingRow:
    return FindingRow("F-1", severity, is_open, "gpt-1", "n1", 3, 7, "", "thermal", 0.9, 1.5,
                      100.0, None, "Rank 7 is too hot.")  # fmt: skip


def facts(*checks: Check) -> NodeFacts:
    return NodeFacts("n1", {}, pd.DataFrame(), (), checks)


OK = Check("clock", Severity.OK, "It is set.")
BAD = Check("XID", Severity.CRITICAL, "GPU 1 told XID 79.")
DARK = Check("links", Severity.UNKNOWN, "Nobody told.")


def test_a_healthy_fleet() -> None:
    expected = "Own time over peers: none of the 16 GPUs is far from its peers; the worst is"
    text, severity = said(fleet(2))
    assert (expected, Severity.OK) == (text.partition(" n0000")[0], severity)


def test_a_fleet_with_stragglers_and_a_silent_node() -> None:
    values = np.ones(16)
    values[3] = 1.4
    expected = (
        (
            "Own time over peers: 1 of 16 GPUs of run gpt-1 is far from the peers; the worst is"
            " n0000, GPU 3, rank 3: 1.40×. n0009 does not answer."
        ),
        Severity.WARNING,
    )
    assert expected == said(fleet(2, values=values.tolist(), silent=("n0009",)), "gpt-1")


def test_a_fleet_of_which_a_part_told_nothing_is_unknown_and_says_of_how_many() -> None:
    text, severity = said(fleet(2, values=[1.0] * 15 + [np.nan]))
    assert Severity.UNKNOWN == severity
    assert "none of the 15 GPUs" in text
    assert "1 more is unknown. It is known for ranks whose" in text


def test_a_fleet_that_told_nothing_is_unknown_and_not_well() -> None:
    assert Severity.UNKNOWN == said(fleet(1, values=[np.nan] * 8))[1]


def test_an_open_finding_is_what_is_wrong_with_a_node() -> None:
    told = places.node(facts(BAD), [finding()])
    assert ("Rank 7 is too hot.", Severity.CRITICAL) == (told.text, told.severity)


def test_a_worse_check_comes_before_a_finding_that_has_ended() -> None:
    told = places.node(facts(OK, BAD), [finding(is_open=False, severity=Severity.WARNING)])
    assert ("n1: XID: GPU 1 told XID 79.", Severity.CRITICAL) == (told.text, told.severity)


def test_an_ended_finding_says_more_than_a_check_that_is_as_bad() -> None:
    told = places.node(facts(OK, BAD), [finding(is_open=False)])
    assert "Ended: Rank 7 is too hot." == told.text


def test_a_node_without_trouble_says_what_is_not_known() -> None:
    told = places.node(facts(OK, DARK), [])
    expected = "Nothing wrong was found in the checks of n1: 1 of 2 checks are ok. Unknown: links."
    assert (expected, Severity.UNKNOWN) == (told.text, told.severity)


def test_a_note_is_no_check_that_is_ok_and_is_told() -> None:
    note = Check("clock", Severity.NOTE, "It is not synchronised.")
    told = places.node(facts(OK, OK, note, DARK), [])
    expected = (
        "Nothing wrong was found in the checks of n1: 2 of 4 checks are ok. To note: clock:"
        " It is not synchronised. Unknown: links."
    )
    assert (expected, Severity.UNKNOWN) == (told.text, told.severity)


def test_of_recorded_runs_the_run_and_the_moment_are_told() -> None:
    shown = fleet(2)
    told = places.fleet(shown, deviation.of_fleet(shown), "x", live=False).text
    assert "none of the 16 GPUs of run gpt-1 at 2026-09-21 " in told
    assert "UTC is far from its peers" in told


def test_a_map_of_several_runs_counts_them() -> None:
    shown = fleet(2)
    shown.runs[:8] = "gpt-2"
    assert places.moment(shown).startswith("2 runs at 2026-")


def test_a_node_at_which_nobody_looked_is_unknown() -> None:
    assert Severity.UNKNOWN == places.node(facts(), []).severity
    assert Severity.UNKNOWN == places.node(facts(DARK), []).severity


def test_an_ended_finding_says_that_it_ended() -> None:
    assert "Ended: Rank 7 is too hot." == places.node(facts(OK), [finding(is_open=False)]).text


def test_a_gpu_beside_its_peers() -> None:
    told = places.gpu("n1, GPU 3, rank 7", [], 1.02, 1)
    expected = (
        "n1, GPU 3, rank 7 took 1.02× the own time of its peers; no finding is about it, with"
        " 1 event in this range."
    )
    assert (expected, Severity.OK) == (told.text, told.severity)


def test_a_gpu_without_own_time_is_unknown() -> None:
    assert Severity.UNKNOWN == places.gpu("n1, GPU 3", [], None, 0).severity


def test_a_slow_gpu_without_a_finding_is_not_shown_as_well() -> None:
    assert Severity.WARNING == places.gpu("n1, GPU 3", [], 1.36, 0).severity


# A node as tables, and where its links lead.


def test_the_worst_check_comes_first() -> None:
    frame = places.checks(
        (
            Check("a", Severity.OK, ""),
            Check("b", Severity.CRITICAL, ""),
            Check("c", Severity.NOTE, ""),
        )
    )
    assert ["b", "c", "a"] == list(frame["check"])


def test_each_gpu_has_a_link_that_names_it() -> None:
    gpus = pd.DataFrame({"gpu": [0, 1], "run": ["gpt-1", ""], "rank": [4, pd.NA]})
    told = NodeFacts("n 1", {}, gpus, ())
    links = list(places.gpus(told, Location(since="5", run="x"))[places.GPU_LINK])
    words = [parse_qs(urlsplit(link).query) for link in links]
    assert [
        {"run": ["gpt-1"], "node": ["n 1"], "gpu": ["0"], "rank": ["4"], "from": ["5"]},
        {"run": ["x"], "node": ["n 1"], "gpu": ["1"], "from": ["5"]},
    ] == words


@given(st.text(min_size=1))
def test_the_drain_commands_name_the_node_and_nothing_else(node: str) -> None:
    assert ["kubectl", "cordon", node] == shlex.split(places.drain(node))[:3]


def test_grafana_gets_the_node_and_the_range() -> None:
    link = places.grafana("http://g:3000/", "n&1", Span(10.0, 20.5))
    location = address.read(
        {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
    )
    assert ("n&1", "10000", "20500") == (location.node, location.since, location.until)


@pytest.mark.parametrize("base", ["http://g", "http://g/", "http://g/d", "http://g/d/"])
def test_grafana_is_named_with_or_without_its_folder(base: str) -> None:
    link = places.grafana(base, "n", Span(0.0, 1.0))
    assert "http://g/d/lockstep-node" == link.partition("?")[0]


def test_without_grafana_there_is_no_link() -> None:
    assert "" == places.grafana("", "n", Span(0.0, 1.0))
