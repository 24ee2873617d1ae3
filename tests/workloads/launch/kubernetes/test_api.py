"""The edge: a kubeconfig that is none, a server that is away, and answers that are none."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lockstep.workloads.launch.kubernetes.api import ApiCluster, KubeconfigError
from lockstep.workloads.launch.kubernetes.cluster import (
    ClusterError,
    RefusedError,
    UnreachableError,
)

Answers = Callable[[int, bytes], str]


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "t",
        "clusters": [{"name": "t", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret-of-a-user"}}],
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "u"}}],
    }))  # fmt: skip
    return path


@pytest.fixture
def answers() -> Iterator[Answers]:
    """`answers(status, body)`: the address of a server that says only that."""
    said = [200, b"{}"]

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(int(said[0]))
            self.end_headers()
            self.wfile.write(bytes(said[1]))

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def say(status: int, body: bytes) -> str:
            said[:] = status, body
            return f"http://127.0.0.1:{server.server_port}"

        yield say
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "text", [None, "", "nothing", "a: [", "{}", '{"clusters": 5, "contexts": []}', "\x00"]
)
def test_a_kubeconfig_that_cannot_be_used_is_told_in_one_line(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)

    with pytest.raises(KubeconfigError) as told:
        ApiCluster(path)
    assert str(told.value).startswith(f"the kubeconfig {path} cannot be used: ")
    assert "\n" not in str(told.value)


def test_a_context_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="nowhere"):
        ApiCluster(kubeconfig(tmp_path, "http://127.0.0.1:1"), "nowhere")


def test_a_server_that_is_away_is_told_without_the_token(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
    cluster = ApiCluster(kubeconfig(tmp_path, address))
    with closing(cluster), pytest.raises(UnreachableError) as told:
        cluster.read("/api/v1/nodes")

    assert f"the API server {address} does not answer: " in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (403, b'{"message": "nodes is forbidden"}', RefusedError, "nodes is forbidden"),
        (404, b"<html>", RefusedError, "404"),
        (422, b"[]", RefusedError, "422"),
        (503, b'{"message": "etcd"}', UnreachableError, "has trouble: GET /x: etcd"),
        (429, b"", UnreachableError, "has trouble"),
        (200, b"<html>", ClusterError, "no object"),
        (200, b"[" * 100_000, ClusterError, "no object"),
    ],
)
def test_an_answer_that_is_none_is_told(
    tmp_path: Path, answers: Answers, status: int, body: bytes, error: type, words: str
) -> None:
    cluster = ApiCluster(kubeconfig(tmp_path, answers(status, body)))
    with closing(cluster), pytest.raises(error, match=words):
        cluster.read("/x")


@pytest.mark.parametrize(("status", "uid"), [(404, ""), (404, "u"), (409, "u")])
def test_what_is_gone_already_is_deleted(
    tmp_path: Path, answers: Answers, status: int, uid: str
) -> None:
    with closing(ApiCluster(kubeconfig(tmp_path, answers(status, b"{}")))) as cluster:
        cluster.delete("/x", uid)


def test_a_deletion_that_conflicts_is_told(tmp_path: Path, answers: Answers) -> None:
    cluster = ApiCluster(kubeconfig(tmp_path, answers(409, b"{}")))
    with closing(cluster), pytest.raises(RefusedError):
        cluster.delete("/x")
