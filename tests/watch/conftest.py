"""A simulated Prometheus, and a watch that asks it."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from lockstep.analyzer.read.bounded_session import BoundedAdapter
from lockstep.analyzer.read.prometheus.access import access
from lockstep.watch import loop
from lockstep.watch.archive.report_worker import written
from lockstep.watch.archive.reports import Reports
from lockstep.watch.judge.diagnoses import Diagnoses
from lockstep.watch.look.members import Members, members
from lockstep.watch.loop import Watch
from lockstep.watch.settings import Settings
from tests.analyzer.findings.conftest import sighting
from tests.lockstep.conftest import lockstep
from tests.watch.fake_prometheus import FakePrometheus
from tests.watch.few_runs import FewRuns, verdict

__all__ = ["lockstep", "sighting"]

URL = "http://prometheus.fake"
DELIVERY = re.compile(r"lockstep_analyzer_(alert|webhook|post_mortem)")
"""Names of metrics about alerts on their way out, and webhooks on their way in."""


class OwnProcess:
    """Writes reports in this process: one of its own takes seconds to begin."""

    def write(self, folder: Path) -> str:
        return written(folder)

    def idle(self) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.fixture(autouse=True)
def reports(monkeypatch) -> None:
    monkeypatch.setattr(loop, "Reports", lambda: Reports(OwnProcess))


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, list[FakePrometheus]]]:
    """A URL, and a list whose last one answers there, without sockets in between."""
    asked: list[FakePrometheus] = []
    send, proxies = BoundedAdapter.send, requests.sessions.get_environ_proxies

    def straight(url: str, **named: Any) -> dict[str, str]:
        """No proxy leads there; to look for one in the environment takes as long as an answer."""
        return {} if url.startswith(URL) else proxies(url, **named)

    def answered(adapter: BoundedAdapter, request: Any, **named: Any) -> requests.Response:
        if not request.url.startswith(URL):
            return send(adapter, request, **named)
        _, _, path, query, _ = urlsplit(request.url)
        words = {name: values[0] for name, values in parse_qs(request.body or query).items()}
        response = requests.Response()
        response.request, response.url = request, request.url
        response.status_code, response._content = asked[-1].answer(path, words)
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundedAdapter, "send", answered)
        patch.setattr(requests.sessions, "get_environ_proxies", straight)
        yield URL, asked


@pytest.fixture
def prometheus(server) -> Iterator[FakePrometheus]:
    fake = FakePrometheus()
    server[1].append(fake)
    yield fake
    server[1].remove(fake)


@pytest.fixture
def watching(server, prometheus, tmp_path) -> Callable[..., Watch]:
    """`watching()`: a Watch over the fake, with archives and state in the test's folder."""

    def make(out: Path | None = tmp_path / "out", state: Path | None = tmp_path / "state") -> Watch:
        watch = Watch(Settings(access(server[0], {}), out, state))
        if out is not None:
            watch.start()
        return watch

    return make


@pytest.fixture
def cycles(prometheus) -> Callable[..., list]:
    """`cycles(watch, n, seconds)`: what opened, closed and stayed in n cycles."""

    def run(watch: Watch, count: int, seconds: float = 15.0) -> list:
        changes: list = []
        hook = lambda *change: changes.append(change)  # noqa: E731
        watch.on_change.append(hook)
        for _ in range(count):
            prometheus.now += seconds
            watch.cycle()
        watch.on_change.remove(hook)
        return changes

    return run


@pytest.fixture
def few_runs(monkeypatch) -> Callable[..., FewRuns]:
    """`few_runs(rows, interval)`: runs that do what a test says, and a watch over them."""
    monkeypatch.setattr(Diagnoses, "_one", verdict)
    return FewRuns


@pytest.fixture
def ranks() -> Callable[..., Members]:
    """`ranks(nodes, width, run)`: members of one run of a data-parallel group."""

    def make(nodes=4, width=2, run="gpt-1", attempt=0, stages=1):
        infos = [
            (
                {
                    "run": run, "rank": str(rank), "attempt": str(attempt),
                    "world_size": str(nodes * width), "dp": str(rank), "tp": "0",
                    "pp": str(rank * stages // (nodes * width)), "gpu": str(rank % width),
                    "uuid": f"GPU-{rank}", "node": f"node-{rank // width}", "job": "lockstep",
                    "instance": f"10.0.0.{rank // width}:9410",
                },
                1.0,
            )
            for rank in range(nodes * width)
        ]  # fmt: skip
        return members(infos)

    return make
