"""What nodes are called where a host file has names of pods."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lockstep.bench.api.reading import failure
from lockstep.collector.contract.archive import RANKS_FILE
from lockstep.runs import launching
from lockstep.runs.archive import write_ranks
from lockstep.runs.launching import BY_COLLECTORS, VARIABLE, ask, names
from lockstep.workloads.spec import Layout, RunSpec

PAGE = (
    "# TYPE lockstep_node_info gauge\n"
    'lockstep_node_info{{hostname="{}",kernel="6",boot_id="b",emulated="false"}} 1\n'
)


@contextmanager
def collector(page: str) -> Iterator[str]:
    """The address of a page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_collectors_tell_what_their_nodes_are_called():
    with collector(PAGE.format("gpu-7")) as one, collector(PAGE.format("gpu-8")) as other:
        found = ask({"run-worker-0": one, "run-worker-1": other})

    assert {"run-worker-0": "gpu-7", "run-worker-1": "gpu-8"} == found
    assert ("gpu-7", "gpu-8") == names(("run-worker-0", "run-worker-1"), found)


@pytest.mark.parametrize("page", ["", PAGE.format("a b"), PAGE.format(""), "not a page"])
def test_what_is_no_name_is_none(page: str):
    with collector(page) as address:
        assert {} == ask({"host": address}, seconds=0.05)


def test_who_does_not_answer_has_no_name():
    assert {} == ask({"host": "http://127.0.0.1:9"}, seconds=0.05)


@pytest.mark.parametrize("found", [
    {}, {"a": "gpu-7"}, {"a": "gpu-7", "b": "gpu-7"},
])  # fmt: skip
def test_where_not_all_are_known_or_two_are_one_hosts_keep_their_names(found: dict[str, str]):
    assert ("a", "b") == names(("a", "b"), found)


class Launcher:
    """As MpirunLauncher, of two hosts."""

    hosts = ("w-0", "w-1")

    def __init__(self, hostfile: Path | None) -> None:
        pass

    def check(self, nodes: int, ranks_per_node: int) -> None:
        pass

    def targets(self) -> dict[str, str]:
        return {host: f"http://{host}:9410" for host in self.hosts}


@pytest.mark.parametrize(("asked", "called"), [("", ("w-0", "w-1")), (BY_COLLECTORS, ("n7", "n8"))])
def test_a_run_is_recorded_under_the_names_of_its_nodes(monkeypatch, asked: str, called):
    monkeypatch.setenv(VARIABLE, asked)
    monkeypatch.setattr(launching, "MpirunLauncher", Launcher)
    monkeypatch.setattr(launching, "ask", lambda _: {"w-0": "n7", "w-1": "n8"})
    hosts = launching.hosts_of(Path("hosts"), 2, 1)
    spec = RunSpec("gpt-1", "gpt", Layout(2, 1, 2), 4, 0, launcher="mpirun", hostfile="hosts",
                   hosts=hosts)  # fmt: skip

    assert called == hosts
    assert {called[0]: "http://w-0:9410", called[1]: "http://w-1:9410"} == (
        launching.collector_addresses(spec)
    )
    assert called[1] == spec.node(1)


@pytest.mark.parametrize(("asked", "pods"), [("", []), (BY_COLLECTORS, ["w-1"])])
def test_who_failed_in_a_pod_is_told_with_its_pod(monkeypatch, tmp_path: Path, asked: str, pods):
    monkeypatch.setenv(VARIABLE, asked)
    monkeypatch.setattr(launching, "MpirunLauncher", Launcher)
    monkeypatch.setattr(Launcher, "hosts", ("w-0.w.runs.svc", "w-1.w.runs.svc"))
    spec = RunSpec("gpt-1", "gpt", Layout(2, 2, 4), 4, 0, launcher="mpirun", hostfile="hosts",
                   hosts=("n7", "n8"))  # fmt: skip
    write_ranks(tmp_path, spec, launching.pods_of(spec))
    told = failure(tmp_path, {"outcome": {"ranks": [3], "reason": "rank 3 ended with code 1"}})

    assert ([3], ["n8"], pods) == (told["ranks"], told["nodes"], told["pods"])


def test_the_gpus_of_ranks_are_written_as_far_as_they_are_known(tmp_path: Path):
    spec = RunSpec("gpt-1", "gpt", Layout(1, 3, 3), 4, 0, device="cuda", pace=False)
    write_ranks(tmp_path, spec, [], {0: (3, "GPU-7"), 1: (None, "GPU-9")})
    rows = pq.read_table(tmp_path / RANKS_FILE).to_pylist()

    assert [(3, "GPU-7"), (None, "GPU-9"), (None, None)] == [
        (row["gpu"], row["uuid"]) for row in rows
    ]
