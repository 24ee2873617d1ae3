"""Matchers come into every selector of a query, and nowhere else."""

import json
import shutil
import subprocess

import pytest

from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.analyzer.read.prometheus.promql import ahead, with_matchers
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.signals import SIGNALS
from lockstep.collector.contract import metrics as m

CASES = {
    "up": 'up{r!="b"}',
    "up{}": 'up{r!="b"}',
    'up{a="}"}': 'up{a="}",r!="b"}',
    'up{a="x",}[5m] offset 1m': 'up{a="x",r!="b"}[5m] offset 1m',
    "count by (up, r) (up == 1)": 'count by (up, r) (up{r!="b"} == 1)',
    "sum(up) by (job)": 'sum(up{r!="b"}) by (job)',
    "a / on (run) group_left () b": 'a{r!="b"} / on (run) group_left () b{r!="b"}',
    "a / on (run) group_left b": 'a{r!="b"} / on (run) group_left b{r!="b"}',
    "rate(a[1m]) > bool 1.5e-3 or inf": 'rate(a{r!="b"}[1m]) > bool 1.5e-3 or inf',
    '{__name__=~"a|b"}': '{__name__=~"a|b",r!="b"}',
    "time() - 5m": "time() - 5m",
    "max_over_time(lockstep:rank:place[1h:5m])": (
        'max_over_time(lockstep:rank:place{r!="b"}[1h:5m])'
    ),
    "a # b\n unless b": 'a{r!="b"} # b\n unless b{r!="b"}',
}
OURS = [
    ask.INFOS, ask.LIVING, ask.TOLD, ask.STOPPED, ask.TELLING, ask.PAGES, ask.LOST, ask.XIDS,
    ask.LINKS, ask.PORTS, ask.own_seconds_query(60.0), ask.rate(m.TRAIN_STEPS, 60.0),
    ask.gauge(m.GPU_CLOCK, 'domain="sm",', 15.0), queries.levels("r", 900.0),
    queries.stopped("r", 900.0, 64), queries.peers([("r", "0", "0")], 900.0, 8),
    queries.slowdowns("r", [1, 2], 900.0), queries.pages("r", [3], 900.0),
    *(queries.outliers(signal, 'x"} or {run=~".*', 900.0, 3.0, 64) for signal in SIGNALS),
]  # fmt: skip


@pytest.mark.parametrize("query", CASES)
def test_matchers_stand_in_every_selector(query):
    assert CASES[query] == with_matchers(query, 'r!="b"')


@pytest.mark.parametrize(
    ("query", "later"),
    [
        ("up", "up{} offset -300s"),
        ('count(rate(a{b="}"}[5m])) by (up)', 'count(rate(a{b="}"}[5m] offset -300s)) by (up)'),
        ("a - a offset 15000ms", "a{} offset -300s - a{} offset -285000ms"),
        ("a / on (run) b", "a{} offset -300s / on (run) b{} offset -300s"),
        ("max_over_time((a > 1)[5m:1m])", "max_over_time((a{} offset -300s > 1)[5m:1m])"),
    ],
)
def test_an_offset_stands_behind_every_selector(query, later):
    assert later == ahead(query, 300.0)


@pytest.mark.parametrize("query", OURS)
def test_without_matchers_a_query_stays_as_it_is(query):
    assert query == with_matchers(query, "")


@pytest.mark.prometheus
def test_prometheus_understands_all_that_is_asked_with_matchers(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    asked = [with_matchers(query, 'r!="b"') for query in OURS]
    asked += [ahead(query, 300.0) for query in asked]
    rules = [{"record": f"r:{place}", "expr": query} for place, query in enumerate(asked)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    answer = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)

    assert 0 == answer.returncode, answer.stderr
