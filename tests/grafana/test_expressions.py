"""Every query: promtool parses it, and a real Prometheus answers it with the labels it promises."""

import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.benchmarks.prometheus_server import prometheus
from tests.deploy.promtool import program
from tests.grafana import fleet
from tests.grafana.boards import Query, filled, queries

pytestmark = pytest.mark.prometheus
QUERIES = queries()


def test_promtool_parses_every_query(tmp_path):
    rules = [
        {"record": f"lockstep:grafana:{number}", "expr": filled(one.expression)}
        for number, one in enumerate(QUERIES)
    ]
    (tmp_path / "all.yml").write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    answer = subprocess.run(
        [program(), "check", "rules", tmp_path / "all.yml"], capture_output=True, text=True
    )

    assert (0, 1) == (answer.returncode, answer.stdout.count("SUCCESS")), answer.stderr


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> Iterator[list[tuple[Query, dict[str, Any]]]]:
    """What a real Prometheus says to each query: at the end of half an hour, or over it."""
    program()
    folder = tmp_path_factory.mktemp("prometheus")
    fleet.stored(folder)
    with prometheus(folder, {}) as (url, _), ThreadPoolExecutor(4) as pool:
        yield list(zip(QUERIES, pool.map(lambda one: ask(url, one), QUERIES), strict=True))


def ask(url: str, query: Query) -> dict[str, Any]:
    words: dict[str, Any] = {"query": filled(query.expression)}
    kind = "query" if query.instant else "query_range"
    if query.instant:
        words["time"] = fleet.END
    else:
        words |= {"start": fleet.START, "end": fleet.END, "step": 60}
    request = urllib.request.Request(f"{url}/api/v1/{kind}", urllib.parse.urlencode(words).encode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def test_prometheus_answers_every_query(answers):
    failed = [
        (one.board, one.panel, said["error"])
        for one, said in answers
        if said["status"] != "success"
    ]

    assert [] == failed


def test_every_query_finds_something(answers):
    silent = {
        (one.board.removesuffix(".json"), one.panel, one.legend)
        for one, said in answers
        if not said.get("data", {}).get("result")
    }

    assert set() == silent


def test_series_have_the_labels_that_name_them(answers):
    nameless = [
        (one.board, one.panel, label)
        for one, said in answers
        for series in said["data"]["result"]
        for label in re.findall(r"\{\{(\w+)\}\}", one.legend)
        if label not in series["metric"]
    ]

    assert [] == nameless


def test_series_of_a_query_differ_in_what_names_them(answers):
    same = []
    for one, said in answers:
        if one.instant or one.legend.startswith(("Finding", "XID", "Attempt", "Checkpoint")):
            continue
        labels = re.findall(r"\{\{(\w+)\}\}", one.legend)
        names = [
            tuple(each["metric"].get(name) for name in labels) for each in said["data"]["result"]
        ]
        if len(names) != len(set(names)):
            same.append((one.board, one.panel, one.legend))

    assert [] == same


def test_no_panel_draws_more_lines_than_a_reader_can_tell_apart(answers):
    # The fleet has 6 ranks: here only that no query multiplies them.
    assert [] == [
        (one.board, one.panel) for one, said in answers if len(said["data"]["result"]) > 20
    ]
