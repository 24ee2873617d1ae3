"""A made-up run that real servers scrape while it goes on, each set-up in its own way."""

import contextlib
import json
import math
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from lockstep.workloads.launch.joining.reachable import free_port
from tests.analyzer.rules.recording_rules.fleet import Fleet, Series

SCRAPE = 1.0
QUICK = 15.0
"""The fleet's 15 s pass in one: its seconds, and its steps, are that much shorter."""
PATIENCE = 60.0


class Pages:
    """The pages of a fleet's nodes, at whatever moment they are asked for.

    Attributes:
        url: `HOST:PORT`; the page of node 3 is `/3`.
        begun: Unix seconds.
        fallen: Node -> unix seconds when its GPU fell off the bus (XID 79).
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.begun = time.time()
        self.fallen: dict[int, float] = {}
        self._nodes: list[list[Series]] = [[] for _ in range(fleet.dp)]
        self._steps = np.empty(0)
        for labels, values in fleet.series():
            if labels["__name__"] == "up":
                continue
            node = int(labels.pop("instance").partition(":")[0].removeprefix("host-"))
            labels.pop("job")
            if labels["__name__"] == "lockstep_train_steps_total":
                self._steps = values
            short = labels["__name__"].endswith("_seconds_total")
            self._nodes[node].append((labels, values / QUICK if short else values))
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = pages.page(int(self.path.strip("/"))).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def page(self, node: int) -> str:
        """As it is now: counters at the end of a step; beyond the fleet's time as at its end."""
        place = self._last_step((time.time() - self.begun) / SCRAPE)
        lines = [
            f"{_name(labels)} {_at(values, place):.12g}\n" for labels, values in self._nodes[node]
        ]
        fell = self.fallen.get(node)
        error = f'gpu="0",uuid="GPU-{node:08d}",xid="79",severity="fatal"'
        lines.append(f"lockstep_gpu_xid_errors_total{{{error}}} {int(fell is not None)}\n")
        if fell is not None:
            lines.append(f"lockstep_gpu_xid_last_timestamp_seconds{{{error}}} {fell:.3f}\n")
        return "".join(lines)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _last_step(self, place: float) -> float:
        index = min(int(place), len(self._steps) - 2)
        rise = self._steps[index + 1] - self._steps[index]
        return index + (math.floor(_at(self._steps, place)) - self._steps[index]) / rise


def _at(values: np.ndarray, place: float) -> float:
    index = min(int(place), len(values) - 2)
    return float(values[index] + (place - index) * (values[index + 1] - values[index]))


def _name(labels: dict[str, str]) -> str:
    rest = ",".join(f'{name}="{text}"' for name, text in labels.items() if name != "__name__")
    return f"{labels['__name__']}{{{rest}}}"


class Servers:
    """Processes that end with this."""

    def __init__(self, folder: Path, pages: Pages) -> None:
        self._folder, self._pages = folder, pages
        self._started = contextlib.ExitStack()

    def close(self) -> None:
        self._started.close()

    def prometheus(
        self,
        name: str,
        nodes: Sequence[int] = (),
        external: dict[str, str] | None = None,
        write_to: Sequence[str] = (),
        federates: Sequence[str] = (),
    ) -> str:
        """The URL of one that scrapes some nodes, or what others have, and writes to others."""
        jobs: list[dict[str, object]] = [
            {
                "job_name": "lockstep",
                "static_configs": [{"targets": [f"host-{node}:9410"]} for node in nodes],
                "relabel_configs": [
                    {"source_labels": ["__address__"], "target_label": "instance"},
                    {"source_labels": ["__address__"], "regex": r"host-(\d+):.*",
                     "target_label": "__metrics_path__", "replacement": "/$1"},
                    {"target_label": "__address__", "replacement": self._pages.url},
                ],
            }
        ]  # fmt: skip
        if federates:
            jobs = [
                {
                    "job_name": "federate", "honor_labels": True, "metrics_path": "/federate",
                    "params": {"match[]": ['{__name__=~"lockstep.+|up",job="lockstep"}']},
                    "static_configs": [
                        {"targets": [url.removeprefix("http://") for url in federates]}
                    ],
                }
            ]  # fmt: skip
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE:.0f}s", "external_labels": dict(external or {}),
            },
            "scrape_configs": jobs,
            "remote_write": [
                {"url": f"{url}/api/v1/write", "queue_config": {"batch_send_deadline": "500ms"}}
                for url in write_to
            ],
        }  # fmt: skip
        folder = self._folder / name
        folder.mkdir()
        (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML too
        own = f"127.0.0.1:{free_port()}"
        return self._start(
            own, "/-/ready",
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address={own}",
             "--log.level=error"],
        )  # fmt: skip

    def victoria_metrics(self, name: str) -> str:
        """The URL of one."""
        own = f"127.0.0.1:{free_port()}"
        return self._start(
            own, "/health",
            ["victoria-metrics", f"-storageDataPath={self._folder / name}",
             f"-httpListenAddr={own}", "-loggerLevel=ERROR", "-memory.allowedBytes=256MB"],
        )  # fmt: skip

    def _start(self, own: str, ready: str, command: Sequence[str]) -> str:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder
        )
        self._started.callback(process.wait, 60)
        self._started.callback(process.terminate)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{own}{ready}", timeout=5).close()
                return f"http://{own}"
            time.sleep(0.05)
        raise AssertionError(f"{command[0]} did not start")


@contextlib.contextmanager
def serving(folder: Path, fleet: Fleet) -> Iterator[tuple[Pages, dict[str, str]]]:
    """The pages, and set-up -> URL, while all of them scrape."""
    pages = Pages(fleet)
    servers = Servers(folder, pages)
    every = range(fleet.dp)
    half = fleet.dp // 2
    try:
        urls = {}
        if shutil.which("victoria-metrics"):
            urls = {name: servers.victoria_metrics(name) for name in ("victoria", "victoria-pair")}
        pair = [
            servers.prometheus(
                one, every, {"cluster": "c", "prometheus_replica": one},
                [url for name, url in urls.items() if one == "a" or name == "victoria-pair"],
            )
            for one in ("a", "b")
        ]  # fmt: skip
        shards = [
            servers.prometheus(f"shard-{index}", nodes, {"shard": str(index)})
            for index, nodes in enumerate((every[:half], every[half:]))
        ]
        urls |= {
            "one": pair[0],
            "shards": servers.prometheus("shards", federates=shards),
            "pair": servers.prometheus("pair", federates=pair),
        }
        yield pages, urls
    finally:
        servers.close()
        pages.close()
