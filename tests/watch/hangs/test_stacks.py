"""Stacks of whom a hang blames: from the collectors that allow it, into the folder of its dumps."""

import contextlib
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lockstep.analyzer.hangs.evidence import Kind
from lockstep.analyzer.hangs.stacks import sentence
from lockstep.analyzer.hangs.verdict import judge
from lockstep.collector.contract.stacks import Frame, Reader, Stacks, Thread, as_tree
from lockstep.runs.hang_dumps import read_folder
from lockstep.watch.hangs.stacks import added, fetch
from tests.hang_programs import Layout, hang
from tests.watch.node_collectors import Quiet

RUN = "gpt-1"
PYTHON = "/usr/lib/python3.12/site-packages"
LOADER = Frame("_next_data", f"{PYTHON}/torch/utils/data/dataloader.py", 789)


def stood(rank: int, taken: float = 1e9, reader: Reader | None = Reader.PY_SPY) -> Stacks:
    frames = (Frame("train", "/job/train.py", 60), LOADER)
    threads = (Thread(rank + 1, "MainThread", True, None, frames),) if reader else ()
    return Stacks(rank, "node-0", rank + 1, "S", taken, reader, False, "", threads)


def answer(*ranks: Stacks, run: str = RUN) -> bytes:
    tree = {"schema_version": 1, "run": run, "ranks": [as_tree(one) for one in ranks]}
    return json.dumps(tree).encode()


@pytest.fixture
def collector() -> Iterator[Callable[..., str]]:
    """`collector(status, body)`: page of one that answers so; `collector.asked` are the ranks."""
    servers = []

    def make(status: int = 200, body: bytes = b"") -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                assert parts.path == "/stacks"
                asked.append(parse_qs(parts.query)["ranks"][0])
                self.send_response(status)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/metrics"

    asked: list[str] = []
    make.asked = asked
    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def folder(tmp_path) -> tuple[Path, int]:
    """Dumps of eight ranks that one holds up, as watch has them, and that one."""
    import os

    case = hang(7, "host-stopped", Layout(8, 1, 1))
    for rank, tree in case.trees.items():
        path = tmp_path / f"dump_{rank}"
        path.write_bytes(pickle.dumps(tree, protocol=2))
        os.utime(path, (case.written[rank],) * 2)
    (tmp_path / "evidence.json").write_text('{"schema_version": 1, "written": {}, "facts": []}')
    return tmp_path, case.rank


def test_the_blamed_rank_and_a_peer_are_asked_and_kept_with_the_verdict(collector, folder):
    where, rank = folder
    before = judge(read_folder(where)[0][1])
    peer = before.origins[0].waiting[0]
    page = collector(body=answer(stood(rank), stood(peer), stood(77)))

    verdict = added([page], RUN, where, before, range(8))

    assert [f"{rank},{peer}"] == collector.asked
    assert sorted((rank, peer)) == [one.rank for one in verdict.merged.dumps.stacks]
    assert (Kind.HOST_STOPPED, Kind.DATA_LOADER) == (before.kind, verdict.kind)
    assert sentence(verdict).startswith(f"Rank {rank} stands in `train` (train.py:60), while rank")
    assert sentence(judge(read_folder(where)[0][1])) == sentence(verdict)


def test_where_it_is_off_the_verdict_stands_and_that_is_told(collector, folder):
    where, _ = folder
    before = judge(read_folder(where)[0][1])
    off, gone = collector(status=403), collector(status=404, body=b"no rank of this run is here")

    assert before is added([off, gone], RUN, where, before, range(8))
    assert {
        off: "stacks are off there ([collector] stacks)",
        gone: "it has no rank of this run any more",
    } == fetch([off, gone], RUN, [0]).silent
    assert not (where / "stacks.json").exists()


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", answer(stood(0), run="other")])
def test_an_answer_that_is_not_as_agreed_gives_nothing(collector, body):
    page = collector(body=body)
    told = fetch([page], RUN, [0])

    assert ([], {page: "its answer is not as agreed"}) == (list(told.stacks), told.silent)


def test_of_two_answers_about_a_rank_the_one_that_was_read_counts(collector):
    pages = [collector(body=answer(stood(0, 2e9, None))), collector(body=answer(stood(0, 1e9)))]

    assert [Reader.PY_SPY] == [one.reader for one in fetch(pages, RUN, [0]).stacks]


def test_a_folder_that_is_gone_costs_the_stacks_only(collector, folder, tmp_path):
    where, rank = folder
    before = judge(read_folder(where)[0][1])
    page = collector(body=answer(stood(rank)))

    assert before is added([page], RUN, tmp_path / "gone", before, range(8))


def test_nobody_is_asked_for_nobody(collector):
    page = collector(body=answer())

    assert not fetch([page], RUN, []).stacks
    assert [] == collector.asked
