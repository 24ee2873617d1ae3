"""The same verdict and the same finding over one Prometheus, and over what people have instead."""

import shutil
import subprocess
import time
from itertools import pairwise

import pytest

from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.load import load_prometheus
from lockstep.analyzer.read.prometheus.ranges import fetch
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.dashboard.sources.prometheus.source import PrometheusSource
from lockstep.watch.loop import Watch
from lockstep.watch.settings import Settings
from tests.analyzer.rules.recording_rules.fleet import Fleet
from tests.lockstep.servers import PATIENCE, SCRAPE, serving

pytestmark = [pytest.mark.foreign, pytest.mark.prometheus, pytest.mark.slow]

FLEET = Fleet(dp=8, tp=1, slow=5, factor=1.6, scrapes=30)
VICTORIA = pytest.mark.skipif(
    shutil.which("victoria-metrics") is None, reason="victoria-metrics is not installed"
)
SET_UPS = [
    pytest.param("victoria", marks=VICTORIA),
    "shards",
    "pair",
    pytest.param("victoria-pair", marks=VICTORIA),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(set-up -> URL, the pages) of 30 s of the run; all go on."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    with serving(tmp_path_factory.mktemp("servers"), FLEET) as (pages, found):
        time.sleep(max(0.0, pages.begun + FLEET.scrapes * SCRAPE - time.time()))
        yield found, pages


@pytest.fixture(scope="module")
def urls(recorded):
    """Set-up -> URL."""
    return recorded[0]


@pytest.fixture(scope="module")
def until(recorded):
    """The moment up to which everybody reads; soon afterwards a GPU fails."""
    end = time.time() - 2
    recorded[1].fallen[2] = time.time()
    return f"{end:.3f}"


@pytest.fixture(scope="module")
def usual(urls, until):
    """The verdict over one Prometheus."""
    return diagnose(load_prometheus(urls["one"], FLEET.run, None, until, {})).verdict


def test_one_prometheus_names_the_slow_rank(usual):
    assert [(5, "node-5", "thermal")] == [(c.rank, c.node, c.cause) for c in usual.culprits]


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("set_up", SET_UPS)
def test_the_verdict_is_the_same(urls, until, usual, set_up):
    found = diagnose(load_prometheus(urls[set_up], FLEET.run, None, until, {})).verdict

    assert usual.status == found.status
    assert [(c.rank, c.node, c.gpu, c.uuid, c.cause, c.tier) for c in usual.culprits] == [
        (c.rank, c.node, c.gpu, c.uuid, c.cause, c.tier) for c in found.culprits
    ]
    assert usual.culprits[0].slowdown == pytest.approx(found.culprits[0].slowdown, rel=0.03)
    # Each server scrapes for itself: on a busy machine another scrape comes late.
    assert usual.coverage == pytest.approx(found.coverage, abs=0.05)
    assert usual.slowdown == pytest.approx(found.slowdown, rel=0.05)


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("set_up", ["one", *SET_UPS])
def test_watch_sees_the_slow_rank_and_opens_the_finding_of_the_lost_gpu(urls, until, set_up):
    watch = Watch(Settings(access(urls[set_up], {}), None, None, interval=SCRAPE))
    deadline = time.monotonic() + PATIENCE

    def slow():
        course = watch._cycles.memory.course  # what is slow is sure after minutes of its own past
        return {(who.run, who.rank, who.node) for who, _ in (*course.waiting, *course.open)}

    def opened():
        return {(one.who.node, one.who.gpu, one.cause) for one in watch.findings()}

    while not (opened() and slow() & {("fleet", 5, "node-5")}) and time.monotonic() < deadline:
        assert watch.cycle(), watch.trouble
        time.sleep(SCRAPE / 4)

    assert ("fleet", 5, "node-5") in slow()
    assert ("node-2", 0, "xid") in opened()


@pytest.mark.sweep(sample=1)
@pytest.mark.parametrize("set_up", SET_UPS)
def test_the_dashboard_shows_the_same(urls, until, set_up):
    def shown(name):
        source = PrometheusSource(urls[name], environment={})
        row = source.run(FLEET.run)
        lines = {one.key for one in source.run_lines(FLEET.run, row.span)}
        ranks = source.ranks(FLEET.run, row.span)["rank"].tolist()
        return (row.ranks, row.nodes, row.layout), lines, ranks[0], sorted(ranks), source.nodes()

    assert shown("one") == shown(set_up)


@pytest.mark.parametrize("set_up", ["pair", pytest.param("victoria-pair", marks=VICTORIA)])
def test_of_a_pair_each_rank_counts_once_and_no_counter_falls(urls, set_up):
    targets = {"lockstep": [f"host-{node}:9410" for node in range(FLEET.dp)]}
    with Connection(access(urls[set_up], {})) as connection:
        now = connection.now()
        counted = connection.instant("sum(lockstep_rank_up)", now)
        twice = connection.instant("sum(lockstep_rank_up)", now, every=True)
        asked = connection.replicas(now)
        fetched = fetch(connection, FLEET.run, targets, now - 30, now)
    steps = [one for one in fetched.series if "steps_total" in one.labels["__name__"]]

    assert [8.0, 16.0] == [counted[0][1], twice[0][1]]
    assert ((("a",),), (("b",),)) == (asked.asked, asked.silent)
    assert 2 * FLEET.dp == len(steps)
    for one in steps:
        assert all(low <= high for low, high in pairwise(one.values))
        assert all(low < high for low, high in pairwise(one.times))


@VICTORIA
def test_victoria_metrics_tells_ranges_up_to_now(urls):
    query = "max by (rank) (timestamp(lockstep_rank_up))"
    newest = {}
    for name in ("one", "victoria"):
        with Connection(access(urls[name], {})) as connection:
            now = time.time()
            newest[name] = connection.over(query, now - 10, now, 1.0)
    for one in newest["victoria"]:
        # It holds back 30 s of a range, and repeats what was before.
        assert one.values[-1] > now - 10 - SCRAPE
        assert one.times[-1] / 1000 == pytest.approx(now, abs=0.002)
    assert len(newest["one"]) == len(newest["victoria"]) == FLEET.dp


@VICTORIA
def test_victoria_metrics_tells_the_time_and_says_who_it_is(urls):
    with Connection(access(urls["victoria"], {})) as connection:
        assert connection.now() == pytest.approx(time.time(), abs=5)
        assert "VictoriaMetrics" == connection.server().name
    with Connection(access(urls["one"], {})) as connection:
        assert "Prometheus" == connection.server().name


def _vmalert(file) -> str:
    if shutil.which("vmalert") is None:
        pytest.skip("vmalert is not installed")
    command = ["vmalert", "-dryRun", f"-rule={file}", "-rule.validateTemplates"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if answer.returncode == 0 else answer.stderr.splitlines()[-1]


def test_vmalert_loads_the_rules(pytestconfig, tmp_path):
    rules = pytestconfig.rootpath / "deploy/rules"
    alerts = (rules / "lockstep-alerts.rules.yml").read_text().splitlines()
    older = tmp_path / "alerts.yml"
    older.write_text("\n".join(line for line in alerts if "keep_firing_for:" not in line))

    assert "" == _vmalert(rules / "lockstep-peers.rules.yml")
    assert "" == _vmalert(older)
    # vmalert may not know it yet, as Debian 12's: docs/sre/servers.md says what to do.
    whole = _vmalert(rules / "lockstep-alerts.rules.yml")
    assert not whole or whole.endswith("unknown fields in rule: keep_firing_for")


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("set_up", ["one", *SET_UPS])
def test_top_names_the_late_rank(lockstep, urls, until, set_up):
    answer = lockstep("top", "--once", "--prometheus", urls[set_up])
    assert answer.code == 0
    assert "fleet: rank 5 on " in answer.out
    assert "Nodes: 8 of 8 answer" in answer.out
    assert "no rank is late" not in answer.out
