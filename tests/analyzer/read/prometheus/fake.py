"""A Prometheus that answers what the loader asks, from series in memory."""

import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pandas as pd

LABEL = re.compile(r'(\w+)="([^"]*)"')
SPAN = re.compile(r"\[(\d+)ms\]")
RUN = re.compile(r'run="([^"]*)"')
NOW = 1_760_100_000.0

Series = tuple[dict[str, str], np.ndarray, np.ndarray]


@dataclass
class Fake:
    """Knobs of the fake, and what it was asked.

    Attributes:
        series: (labels, times in ms, values).
        answer: Instead of all answers: (status, headers, body).
        most_ms: A longer range of raw samples is 422, as with `--query.max-samples`.
        victoria: Tells the time as VictoriaMetrics does.
        left_closed: Whether a range includes its left end, as in Prometheus 2.
        cut: Bytes that are missing at the end of each body that Content-Length announces.
        delay: Seconds before an answer.
        asked: (path, query) of each request.
        headers: Of the last request.
        points: The most samples of a series in one answer.
    """

    series: list[Series] = field(default_factory=list)
    answer: tuple[int, dict[str, str], bytes] | None = None
    most_ms: int = 10**12
    victoria: bool = False
    left_closed: bool = True
    cut: int = 0
    delay: float = 0.0
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    points: int = 0

    def respond(self, path: str, words: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.asked.append((path, words.get("query", "")))
        if self.answer is not None:
            return self.answer
        status, tree = self._tree(path, words)
        return status, {"Content-Type": "application/json"}, json.dumps(tree).encode()

    def _tree(self, path: str, words: dict[str, str]) -> tuple[int, Any]:
        query = words.get("query", "")
        if path.endswith("/label/run/values"):
            return _good(sorted({labels["run"] for labels, *_ in self.series if "run" in labels}))
        if path.endswith("/labels"):
            return _good(sorted({name for labels, *_ in self.series for name in labels}))
        if path.endswith("/status/buildinfo"):
            return _good({"version": "2.42.0", "goVersion": "go1.19"})
        if query == "time()" and self.victoria:
            return _good(_vector([({}, NOW)]))
        if query == "time()":
            return _good({"resultType": "scalar", "result": [NOW, str(NOW)]})
        span = int(SPAN.search(query)[1])
        if path.endswith("query_range"):
            return _good(_matrix([self._presence(query, span, words)]))
        end = round(float(words["time"]) * 1000)
        found = self._inside(query, end - span, end)
        if query.startswith("count by"):
            names = re.search(r"\((.*?)\)", query)[1].split(", ")
            told = {
                tuple((name, labels[name]) for name in names if name in labels)
                for labels, *_ in found
            }
            return _good(_vector([(dict(each), 1) for each in sorted(told)]))
        if query.startswith("count("):
            return _good(_vector([({}, len(found))] if found else []))
        if query.startswith("max("):
            return _good(_vector([({}, max(len(times) for _, times, _ in found))] if found else []))
        if span > self.most_ms:
            why = "query processing would load too many samples into memory in query execution"
            return 422, {"status": "error", "errorType": "execution", "error": why}
        self.points = max([self.points, *(len(times) for _, times, _ in found)])
        return _good(_matrix(found))

    def _inside(self, query: str, low: int, high: int) -> list[Series]:
        found = []
        for labels, times, values in self.series:
            if not _matches(query, labels):
                continue
            left = times >= low if self.left_closed else times > low
            inside = left & (times <= high)
            if inside.any():
                found.append((labels, times[inside], values[inside]))
        return found

    def _presence(self, query: str, span: int, words: dict[str, str]) -> Series:
        start, end, step = (float(words[name]) * 1000 for name in ("start", "end", "step"))
        assert (end - start) / step < 11_000
        grid = np.arange(start, end + 1, step)
        found = self._inside(query, 0, round(NOW * 1000))
        times = np.unique(np.concatenate([one[1] for one in found])) if found else np.empty(0)
        there = np.searchsorted(times, grid, "right") > np.searchsorted(times, grid - span)
        return {}, grid[there].astype(np.int64), np.ones(there.sum())


def _matches(query: str, labels: dict[str, str]) -> bool:
    name = re.search(r"((?:lockstep|kube)_\w+)[{\[]", query)
    if name and name[1] != labels["__name__"]:
        return False
    for label, how, text in re.findall(r'(\w+)(=~?)"((?:[^"\\]|\\.)*)"', query):
        pattern = text.replace("\\\\", "\\")
        have = labels.get(label, "")
        if how == "=" and have != pattern:
            return False
        if how == "=~" and not re.fullmatch(pattern, have):
            return False
    return True


def _good(data: Any) -> tuple[int, Any]:
    return 200, {"status": "success", "data": data}


def _vector(found: list[tuple[dict[str, str], float]]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [NOW, str(value)]} for labels, value in found]
    return {"resultType": "vector", "result": result}


def _matrix(found: list[Series]) -> dict[str, Any]:
    result = [
        {
            "metric": labels,
            "values": [[at / 1000, _text(v)] for at, v in zip(times, values, strict=True)],
        }
        for labels, times, values in found
        if len(times)
    ]
    return {"resultType": "matrix", "result": result}


def _text(value: float) -> str:
    return {np.inf: "+Inf", -np.inf: "-Inf"}.get(
        value, "NaN" if np.isnan(value) else repr(float(value))
    )


@contextmanager
def serving() -> Iterator[Fake]:
    """A Fake that is being served at its `url`."""
    state = Fake()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            self._answer(path, query)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            self._answer(self.path, self.rfile.read(length).decode())

        def _answer(self, path: str, query: str) -> None:
            state.headers = dict(self.headers)
            time.sleep(state.delay)
            status, headers, body = state.respond(path, dict(urllib.parse.parse_qsl(query)))
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) - state.cut])

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that went away is what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()


def stored(samples: pd.DataFrame, run: str, world: int) -> list[Series]:
    """Samples of an archive as a Prometheus keeps them, of one rank and one GPU a node."""
    found = []
    keys = ["node", "gpu", "rank", "metric", "labels"]
    for (node, gpu, rank, metric, text), rows in samples.groupby(keys, dropna=False, sort=False):
        labels = {"__name__": metric, "job": "lockstep", "instance": f"{node}:9410"}
        labels |= {name: value for name, value in LABEL.findall(text) if value}
        if not pd.isna(gpu):
            labels |= {"gpu": str(gpu), "uuid": f"GPU-{node}-{gpu}"}
        if not pd.isna(rank):
            labels |= {"run": run, "rank": str(rank)}
        times = np.rint(rows["time"].to_numpy(dtype=float) * 1000).astype(np.int64)
        found.append((labels, times, rows["value"].to_numpy(dtype=float)))
        if metric == "lockstep_rank_up":
            info = {
                "__name__": "lockstep_rank_info", "attempt": "0", "local_rank": "0",
                "world_size": str(world), "dp": str(rank), "pp": "0", "tp": "0", "ep": "0",
                "cp": "0", "gpu": "0", "uuid": f"GPU-{node}-0", "node": node, "pid": "7",
            }  # fmt: skip
            found.append((labels | info, times, np.ones(len(times))))
        if metric == "up":
            build = {"__name__": "lockstep_build_info", "version": "1", "python": "3"}
            found.append((labels | build, times, np.ones(len(times))))
    return found
