"""`lockstep nodes` from outside: exit codes, sentences, signals, and its page."""

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.kubernetes import API_DOMAIN
from lockstep.collector.exporter.page import render
from tests.cluster.asking import Api, a_node
from tests.cluster.fake_api import ADMIN, FakeApi
from tests.cluster.node_conditions import statuses

NAMES = ["n0", "n1", "n2"]
NODES = "/api/v1/nodes"
"""Where the test itself creates some."""


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi().running() as running:
        yield running


@pytest.fixture
def api(fake: FakeApi, tmp_path: Path) -> Api:
    found = Api(fake.url, ADMIN, fake.kubeconfig(tmp_path))
    for name in NAMES:
        found.ask("POST", "/api/v1/nodes", a_node(name))
    return found


@pytest.fixture
def watch() -> Iterator[str]:
    """A page on which n1 has a fatal XID."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            now = time.time()
            samples = [m.LAST_EVALUATION(now), m.DATA_AGE(1.0), m.PROMETHEUS_UP(1),
                       *(m.NODE_SCRAPED(now, name) for name in NAMES),
                       *(m.NODE_HEALTH(1.0, name) for name in NAMES),
                       m.FINDING_ACTIVE(1, "", "n1", "", "3", "", "xid", "page", "event", "79"),
                       ]  # fmt: skip
            body = render(samples).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_one_look_shows_the_nodes_and_writes_nothing(api, watch, lockstep, fake):  # type: ignore[no-untyped-def]
    found = lockstep("nodes", "--watch", watch, "--kubeconfig", str(api.kubeconfig), "--once")

    assert 2 == found.code
    assert ["node", "healthy", "faults", "what", "is", "new"] == found.out.splitlines()[0].split()
    assert "xid GPU 3 is open" in found.out
    assert {} == statuses(api, "n1")
    assert [] == [path for method, path in fake.calls if method != "GET" and path != NODES]


def test_annotate_writes_conditions(api, watch, lockstep):  # type: ignore[no-untyped-def]
    words = ("--watch", watch, "--kubeconfig", str(api.kubeconfig), "--mode", "annotate")
    found = lockstep("nodes", *words, "--once")

    assert 2 == found.code
    assert "True" == statuses(api, "n1")["GpuDegraded"]
    assert API_DOMAIN not in found.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--mode", "taint"], 64, "--mode taint is not observe or annotate"),
        (["--mode", "nonsense"], 64, "is not observe or annotate"),
        (["--dry-run"], 64, "goes with --mode annotate"),
        (["--interval", "0"], 64, "is not from 0.2 to 60 seconds"),
        (["--watch", "localhost"], 64, "is no address of watch"),
        (["--watch", "ftp://x"], 64, "is no address of watch"),
        (["--kubeconfig", "/nowhere"], 65, "cannot be used"),
        (["--context", "other"], 65, "cannot be used"),
        (["--watch", "http://127.0.0.1:9"], 69, "does not answer"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_its_code(words, code, said, api, watch, lockstep):  # type: ignore[no-untyped-def]
    before = ["--watch", watch, "--kubeconfig", str(api.kubeconfig)]
    found = lockstep("nodes", *before, *words, "--once")

    assert code == found.code
    assert said in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    "text", ["", "not yaml: [", "{}", "[]", "\x00", '{"apiVersion": "v1", "kind": "Config"}']
)
def test_a_damaged_kubeconfig_is_bad_input(text, tmp_path, watch, lockstep):  # type: ignore[no-untyped-def]
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    found = lockstep("nodes", "--watch", watch, "--kubeconfig", str(path), "--once")

    assert 65 == found.code
    assert "Traceback" not in found.err


def test_an_account_without_rights_is_told_so(api, fake, watch, lockstep, tmp_path):  # type: ignore[no-untyped-def]
    kubeconfig = fake.kubeconfig(tmp_path, "nobody")
    found = lockstep("nodes", "--watch", watch, "--kubeconfig", str(kubeconfig), "--once")

    assert 69 == found.code
    assert "the account lacks that right" in found.err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_serves_its_page_until_a_signal_comes(number, code, api, watch, tmp_path):  # type: ignore[no-untyped-def]
    where = tmp_path / "address"
    process = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "nodes", "--watch", watch, "--kubeconfig",
         str(api.kubeconfig), "--mode", "annotate", "--interval", "0.5", "--listen", "127.0.0.1:0",
         "--announce", str(where)],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        until = time.monotonic() + 60
        while "GpuDegraded" not in statuses(api, "n1") and time.monotonic() < until:
            time.sleep(0.1)
        page = ""
        # The page says so once the cycle has ended that wrote it.
        while "last_success_timestamp_seconds " not in page and time.monotonic() < until:
            with urllib.request.urlopen(f"http://{where.read_text().strip()}/metrics") as answer:
                page = answer.read().decode()
        process.send_signal(number)
        said = process.communicate(timeout=240)[1]
    finally:
        process.kill()

    assert code == process.returncode
    assert b"Traceback" not in said
    assert 'lockstep_node_quarantined{node="n1"} 0' in page
    assert "lockstep_remediation_breaker_open 0" in page
    assert [] == [name for name in m.EXPORTED["remediator"] if name not in page]
    lease = api.read("/apis/coordination.k8s.io/v1/namespaces/lockstep/leases/lockstep-nodes")
    assert "" == lease["spec"]["holderIdentity"]
