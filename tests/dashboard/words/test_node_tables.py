"""A node as tables, and where its links lead."""

import shlex
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.dashboard import address
from lockstep.dashboard.address import Place
from lockstep.dashboard.shapes import Check, NodeFacts, Severity, Span
from lockstep.dashboard.words import places


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
    links = list(places.gpus(told, Place(since="5", run="x"))[places.GPU_LINK])
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
    place = address.read(
        {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}
    )
    assert ("n&1", "10000", "20500") == (place.node, place.since, place.until)


@pytest.mark.parametrize("base", ["http://g", "http://g/", "http://g/d", "http://g/d/"])
def test_grafana_is_named_with_or_without_its_folder(base: str) -> None:
    link = places.grafana(base, "n", Span(0.0, 1.0))
    assert "http://g/d/lockstep-node" == link.partition("?")[0]


def test_without_grafana_there_is_no_link() -> None:
    assert "" == places.grafana("", "n", Span(0.0, 1.0))
