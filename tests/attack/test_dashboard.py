"""The dashboard of somebody who names runs and nodes to do harm, in a real browser and by HTTP."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page

from lockstep.app import main
from lockstep.dashboard.pages.registry import PAGES
from lockstep.dashboard.serve.server import HEADERS, content_policy
from tests.attack import archives
from tests.dashboard.browser.serving import running, settled

pytestmark = [pytest.mark.browser, pytest.mark.distributed, pytest.mark.timeout(1200)]
SCRIPT = "<script>window.stolen=1</script><img src=x onerror='window.stolen=1'>"
LINK = "[x](javascript:window.stolen=1)<svg onload='window.stolen=1'>'\"&{{7*7}}${7*7}"
FORMS = (
    "/../../../../../../etc/passwd", "/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/static/../../../../../../../../etc/passwd",
    "/static/..%5c..%5c..%5cetc%5cpasswd", "/static/%252e%252e/%252e%252e/etc/passwd",
    "//etc/passwd", "/./etc/passwd", "/app/static/../../../etc/passwd", "/media/../../etc/passwd",
    "/component/x/../../../../../etc/passwd", "/_stcore/../../../../etc/passwd",
    "/static//etc/passwd", "/static/....//....//....//etc/passwd", "/%00/etc/passwd",
    "/static/%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd", "/file:///etc/passwd", "/\\..\\..\\etc\\passwd",
)  # fmt: skip
"""Ways out of a folder; what they lead to is on every machine."""


@pytest.fixture(scope="module")
def folder(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one archive with its verdict and report; it asks for the browser first."""
    archive = archives.named(tmp_path_factory.mktemp("named") / "runs" / "a", SCRIPT, LINK)
    assert 2 == main(["analyze", str(archive)])
    assert 0 == main(["report", str(archive)])
    return archive.parent


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with running({"kind": "folder", "path": folder}, {}) as where:
        yield where


def stolen(page: Page) -> list[object]:
    """What scripts of strangers left in any frame of a page."""
    return [frame.evaluate("window.stolen ?? null") for frame in page.frames]


@pytest.mark.sweep(sample=5)
@pytest.mark.parametrize("key", [each.key for each in PAGES])
def test_no_name_becomes_a_script_on_any_page(page: Page, address: str, key: str) -> None:
    asked: list[str] = []

    def dialog(one: Dialog) -> None:
        asked.append(one.message)
        one.dismiss()

    page.on("dialog", dialog)
    [title] = [each.title for each in PAGES if each.key == key]
    names = {"run": SCRIPT, "node": f"{LINK}2", "gpu": "0", "rank": "2", "a": SCRIPT, "b": SCRIPT}
    path = "" if key == "now" else key  # the first page has the address of the whole
    page.goto(f"{address}/{path}?{urlencode(names)}")
    settled(page, title)

    assert ([], {None}) == (asked, set(stolen(page)))
    assert 0 == page.locator("img[src='x']").count()
    assert 0 == page.locator("a[href^='javascript']").count()


def test_no_name_becomes_a_script_in_a_report(page: Page, folder: Path) -> None:
    page.goto((folder / "a" / "report.html").as_uri())

    assert [None] == stolen(page)
    assert 0 == page.locator("script, img, iframe, a[href^='javascript']").count()
    assert "default-src 'none'" in str(
        page.locator("meta[http-equiv='Content-Security-Policy']").get_attribute("content")
    )


def test_an_inline_script_that_got_in_would_not_run(page: Page, address: str) -> None:
    blocked = page.context.new_page()  # of its own: the browser complains, as it should
    said: list[str] = []
    blocked.on("console", lambda message: said.append(message.text))
    blocked.goto(f"{address}/cluster")
    settled(blocked, "Cluster")
    blocked.evaluate(
        """() => { const one = document.createElement('script');
        one.textContent = 'window.stolen = 1'; document.body.append(one); }"""
    )

    assert [None] == stolen(blocked)
    assert any("Content Security Policy" in text for text in said)
    blocked.close()


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None: ...


def test_a_page_of_another_origin_cannot_frame_it(browser: Browser, address: str) -> None:
    _Elsewhere.body = f"<h1>win</h1><iframe src='{address}/cluster'></iframe>".encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/", wait_until="load")
        page.wait_for_timeout(1000)  # nothing is to come, and nothing tells so
        [frame] = [each for each in page.frames if each is not page.main_frame]

        assert 0 == frame.locator("[data-testid=stApp], #root").count()
        assert not frame.url.startswith(address)
    finally:
        page.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "path", ["/", "/cluster", "/_stcore/health", "/nothing/here.js", "/static/nothing", "/media/x"]
)
def test_every_answer_carries_the_headers(address: str, path: str) -> None:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()

    assert HEADERS == {name: answer.headers[name] for name in HEADERS}
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]


def test_the_policy_lets_no_inline_script_in_but_streamlits_own() -> None:
    rules = dict(rule.split(" ", 1) for rule in content_policy("<script>a()</script>").split("; "))

    scripts = rules["script-src"].split()
    assert "'self'" == scripts[0]
    assert 2 == len(scripts)
    assert scripts[1].startswith("'sha256-")
    assert "'none'" == rules["object-src"]


@pytest.mark.parametrize("form", FORMS)
def test_no_path_leads_out_of_the_dashboard(address: str, form: str) -> None:
    where = urlsplit(address)
    assert where.hostname is not None
    words = f"GET {form} HTTP/1.1\r\nHost: {where.netloc}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((where.hostname, where.port or 80), timeout=30) as raw:
        raw.sendall(words.encode())
        told = b"".join(iter(lambda: raw.recv(65536), b""))

    assert told.startswith(b"HTTP/1.1 ")
    assert b"root:" not in told


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize("name", ["../../etc", "/etc", "..", ".", "a/../../..", "..\\..", "\x00"])
def test_no_name_of_an_archive_leads_out_of_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder = archives.named(tmp_path / "in" / "archive", name, f"{name}/node-")
    before = {path for path in tmp_path.rglob("*") if "archive" not in path.parts}
    assert 2 == main(["analyze", str(folder)])
    assert 0 == main(["report", str(folder)])
    capsys.readouterr()

    assert before == {path for path in tmp_path.rglob("*") if "archive" not in path.parts}
    assert name == json.loads((folder / "verdict.json").read_text())["run"]
