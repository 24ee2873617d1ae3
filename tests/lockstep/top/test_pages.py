"""Looks at pages of collectors over HTTP: rates between two, silence, nonsense."""

import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lockstep.collector.contract.bounded_json import loads
from lockstep.top.look import LookError
from lockstep.top.pages import Pages, announced, commands, counters, rates, read
from lockstep.top.screen import screen
from tests.lockstep.top.looks import RUN, page


class Nodes:
    """Pages by path: text, or None = the connection breaks."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = {}
        self.asked: list[str] = []
        nodes = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                nodes.asked.append(self.headers.get("Authorization", ""))
                text = nodes.texts[self.path.split("/")[1]]
                if text is None:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, node: int) -> str:
        return f"http://{self.place}/{node}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.close()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_two_looks_name_the_late_rank(nodes: Nodes):
    clock = Clock()
    pages = Pages(lambda: [nodes.url(node) for node in range(4)], clock)
    for steps in (10.0, 30.0):
        for node in range(4):
            own = {2 * node + index: 0.075 if (node, index) == (1, 1) else 0.05 for index in (0, 1)}
            nodes.texts[str(node)] = page(node, own, steps)
        clock.now += 2.0
        told = pages.look()
    assert told.span == 2.0
    assert told.rates[RUN, 3].own == pytest.approx(0.075)
    assert told.rates[RUN, 3].step == pytest.approx(0.1)
    assert told.rates[RUN, 3].waits == pytest.approx(1.0)
    assert "rank 3 on node-1 takes 1.50x" in screen(told).sentences[0].text


def test_who_stops_answering_is_silent_and_the_others_go_on(nodes: Nodes):
    clock = Clock()
    pages = Pages(lambda: [nodes.url(node) for node in range(2)], clock)
    nodes.texts = {str(node): page(node, {2 * node: 0.05}) for node in range(2)}
    pages.look()
    nodes.texts["1"] = None
    clock.now += 30.0
    told = pages.look()
    silent = next(one for one in told.nodes if one.node == "node-1")
    assert silent.age == 30.0
    assert "cannot be asked" in silent.why
    assert {labels["node"] for labels, _ in told.gauges["lockstep_rank_up"]} == {"node-0"}


def test_nobody_answers(nodes: Nodes):
    nodes.texts = {"0": None}
    with pytest.raises(LookError, match="does not answer: it cannot be asked"):
        Pages(lambda: [nodes.url(0)], Clock()).look()


@pytest.mark.parametrize("text", ["lockstep_rank_up{run=\n", "lockstep_rank_up{a} b c d\n"])
def test_a_page_that_is_none_is_silent(nodes: Nodes, text: str):
    nodes.texts = {"0": text}
    with pytest.raises(LookError, match="its answer is not as agreed"):
        Pages(lambda: [nodes.url(0)], Clock()).look()


def test_credentials_are_sent_and_not_shown(nodes: Nodes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCKSTEP_COLLECTOR_TOKEN", "secret")
    nodes.texts = {"0": page(0, {0: 0.05})}
    told = Pages(lambda: [nodes.url(0)], Clock()).look()
    assert nodes.asked == ["Bearer secret"]
    assert "secret" not in told.source


def test_only_lines_that_are_read_are_parsed():
    told = read(b'lockstep_other_total{x="1" 5\nlockstep_host_cpus 8\n# HELP a b\n')
    assert told == [("lockstep_host_cpus", {}, 8.0)]


def test_a_counter_that_began_anew_tells_no_rate():
    old, new = (counters(read(page(0, {0: 0.05}, steps).encode()))[RUN, 0] for steps in (50, 10))
    found = rates(old, new, 2.0)
    assert (found.own, found.step, found.waits) == (None, None, None)


def test_a_rank_without_a_step_stands():
    same = counters(read(page(0, {0: 0.05}, 50).encode()))[RUN, 0]
    assert rates(same, same, 2.0).step == math.inf
    assert rates(same, same, 2.0).own is None


def test_own_time_of_collectives_that_were_not_timed_is_not_known():
    old, new = (
        counters(read(page(0, {0: 0.05}, steps, known=0.5).encode()))[RUN, 0] for steps in (10, 30)
    )
    assert rates(old, new, 2.0).own is None


def test_collectors_of_runs_on_this_machine_are_found(tmp_path: Path):
    run = tmp_path / "gpt-1"
    run.mkdir()
    (run / "node-0.address").write_text("127.0.0.1:4711\n")
    (run / "node-1.address").write_text("no address; rm -rf\n")
    (run / "node-2.address").symlink_to(run / "node-0.address")
    assert announced(tmp_path) == ["http://127.0.0.1:4711"]
    dead = {"pid": 2**22 + 1, "start_ticks": 1}
    assert loads(str(dead).replace("'", '"')) == dead
    (run / "owner.json").write_text(str(dead).replace("'", '"'))
    assert announced(tmp_path) == []


def test_how_runs_on_this_machine_were_started_is_shown(nodes: Nodes, tmp_path: Path):
    run = tmp_path / RUN
    run.mkdir()
    (run / "command").write_text(f"lockstep run --exec --name t -- python train.py {'x' * 300}\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "command").symlink_to(run / "command")
    nodes.texts = {"0": page(0, {0: 0.05, 1: 0.05}, world=2)}
    told = Pages(lambda: [nodes.url(0)], Clock(), lambda: commands(tmp_path)).look()
    assert list(told.commands) == [RUN]
    (line,) = [one.text for one in screen(told).sentences if "train.py" in one.text]
    assert line.startswith(f"{RUN} is `lockstep run --exec --name t -- python train.py")
    assert len(line) < 200
    (run / "owner.json").write_text('{"pid": 4194305, "start_ticks": 1}')
    assert commands(tmp_path) == {}
