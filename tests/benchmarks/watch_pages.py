"""Pages of the collectors of a simulated run, for a real Prometheus to scrape.

Synchronous training: all ranks take as long as the slowest, who waits least. Own time has 1 % noise
a step; a GPU's gauges follow its rank's speed. Nothing here is shared with the analyzer.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

GPUS = 8
STEP_SECONDS = 0.5
OWN_SECONDS = 0.4
PHASES = ("data", "forward", "backward", "grad_sync", "optimizer", "checkpoint", "eval", "other")


class Cluster:
    """A run on some nodes; for several threads.

    Args:
        nodes: Of GPUS ranks each, all of one data-parallel group.
        run: Its id.
        ranks_per_node: Likewise.

    Attributes:
        slow: rank -> factor of its own time, changed while it runs.
        gone: Ranks whose process is gone; then all others wait.
        more: Lines that are added to each node's page.
    """

    def __init__(self, nodes: int, run: str = "gpt-sim", ranks_per_node: int = GPUS) -> None:
        self.nodes, self.run, self.width = nodes, run, ranks_per_node
        self.slow: dict[int, float] = {}
        self.gone: set[int] = set()
        self.more: Callable[[int], str] = lambda node: ""
        ranks = nodes * ranks_per_node
        self._dice = np.random.default_rng(11)
        self._steps = np.zeros(ranks)
        self._own = np.zeros(ranks)
        self._wall = np.zeros(ranks)
        self._progress = time.monotonic()
        self._last = time.monotonic()
        self._lock = threading.Lock()
        self._head = [self._labels(rank) for rank in range(ranks)]

    def page(self, node: int) -> str:
        """The page of one collector now."""
        with self._lock:
            self._advance()
            return self._text(node)

    def _advance(self) -> None:
        now = time.monotonic()
        if self.gone:
            self._last = now
            return
        factor = np.ones(len(self._steps))
        for rank, each in self.slow.items():
            factor[rank] = each
        step = max(STEP_SECONDS, OWN_SECONDS * float(factor.max()) + 0.1)
        steps = (now - self._last) / step
        done = int(steps)
        if not done:
            return
        self._steps += done
        noise = 1 + 0.01 * self._dice.standard_normal(len(self._steps)) / np.sqrt(done)
        self._own += done * OWN_SECONDS * factor * noise
        self._wall += done * step
        self._last += done * step
        self._progress = now

    def _labels(self, rank: int) -> tuple[str, str, str]:
        mine = f'run="{self.run}",rank="{rank}"'
        gpu = f'gpu="{rank % self.width}",uuid="GPU-{rank:08d}"'
        place = (
            f'attempt="0",local_rank="{rank % self.width}",world_size="{len(self._steps)}"'
            f',dp="{rank}",pp="0",tp="0",ep="0",cp="0",node="node-{rank // self.width}",pid="1"'
        )
        return mine, gpu, place

    def _text(self, node: int) -> str:
        lines = ['lockstep_build_info{version="1",python="3"} 1']
        for rank in range(node * self.width, (node + 1) * self.width):
            lines += self._rank(rank)
        return "\n".join(lines) + "\n" + self.more(node)

    def _rank(self, rank: int) -> Iterator[str]:
        mine, gpu, place = self._head[rank]
        steps, own, wall = int(self._steps[rank]), self._own[rank], self._wall[rank]
        done = steps - 1 if self.gone and rank not in self.gone else steps
        yield f"lockstep_rank_info{{{mine},{place},{gpu}}} 1"
        yield f"lockstep_rank_up{{{mine}}} {int(rank not in self.gone)}"
        enqueued = steps if rank not in self.gone else steps - 1
        completed = steps - 1 if self.gone else steps
        yield f'lockstep_train_enqueued_sequence{{{mine},group="dp"}} {enqueued}'
        yield f'lockstep_train_completed_sequence{{{mine},group="dp"}} {completed}'
        if rank in self.gone:
            return
        age = time.monotonic() - self._progress
        if self.gone:
            op = 'op="dp-all-reduce",group="dp"'
            yield f"lockstep_train_open_operation_age_seconds{{{mine},{op}}} {age:.3f}"
        yield f"lockstep_train_heartbeat_age_seconds{{{mine}}} 0.3"
        yield f"lockstep_train_progress_age_seconds{{{mine}}} {age:.3f}"
        yield f"lockstep_train_steps_total{{{mine}}} {done}"
        yield f"lockstep_train_known_steps_total{{{mine}}} {done}"
        yield f"lockstep_train_own_seconds_total{{{mine}}} {own:.6f}"
        yield f"lockstep_train_cpu_seconds_total{{{mine}}} {own:.6f}"
        wait = wall - own
        shares = dict(
            zip(PHASES, (0.0, own * 0.4, own * 0.5, wait, own * 0.1, 0.0, 0.0, 0.0), strict=True)
        )
        for phase, seconds in shares.items():
            yield f'lockstep_train_phase_seconds_total{{{mine},phase="{phase}"}} {seconds:.6f}'
        yield f'lockstep_train_collective_seconds_total{{{mine},group="dp"}} {wait:.6f}'
        yield f'lockstep_train_collectives_total{{{mine},group="dp"}} {steps}'
        yield f"lockstep_train_samples_total{{{mine}}} {8 * steps}"
        yield f"lockstep_train_tokens_total{{{mine}}} {4096 * steps}"
        slow, noise = self.slow.get(rank, 1.0), self._dice.normal()
        yield f'lockstep_gpu_clock_hertz{{{gpu},domain="sm"}} {1.98e9 / slow:.0f}'
        yield f'lockstep_gpu_temperature_celsius{{{gpu},sensor="gpu"}} {60 + noise:.2f}'
        yield f"lockstep_gpu_power_watts{{{gpu}}} {600 + 5 * noise:.2f}"
        yield f"lockstep_gpu_utilization_ratio{{{gpu}}} 0.95"


@contextlib.contextmanager
def served(cluster: Cluster, targets: Path) -> Iterator[str]:
    """Address of all pages, one a path; Prometheus finds them by the file `targets`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.strip("/")
            body = cluster.page(int(name)).encode() if name.isdecimal() else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        own = f"127.0.0.1:{server.server_port}"
        groups = [
            {
                "targets": [own],
                "labels": {"__metrics_path__": f"/{node}", "instance": f"node-{node}"},
            }
            for node in range(cluster.nodes)
        ]
        complete = targets.with_suffix(".new")
        complete.write_text(json.dumps(groups))
        complete.replace(targets)
        try:
            yield own
        finally:
            server.shutdown()
            thread.join()
