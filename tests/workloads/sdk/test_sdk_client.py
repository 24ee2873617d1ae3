"""Where the client of the API sends its token."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("httpx", reason="needs the extra api")

import lockstep
from lockstep.workloads.sdk.client.calls import Endpoint


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"runs": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_proxy_of_the_environment_never_sees_the_token_of_this_machine(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    with lockstep.Client(address, token="secret") as client:
        assert [] == client.runs()


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("http://127.0.0.1:9412", False), ("https://127.0.0.1:9412", False),
        ("https://localhost", False), ("https://[::1]:9412", False),
        ("http://node-1:9412", False), ("https://node-1:9412", True),
    ],
)  # fmt: skip
def test_a_proxy_stands_between_only_where_it_cannot_read_the_token(url: str, may: bool) -> None:
    assert may == Endpoint(url, "secret").may_be_proxied
