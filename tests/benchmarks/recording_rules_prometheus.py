"""The recording rules and their reader in a real Prometheus that scraped one large page.

A rule's cost is the CPU of Prometheus for its expression as a query, the least of three, when
nothing else is asked of it: beside scrapes and other evaluations CPU cannot be told apart, and
beside other programs it is whatever these leave. What is recorded is written too: not counted. The
reader's pass is over the samples of LIVE_SECONDS, a sixth of those of the 15 minutes it asks for.
"""

import contextlib
import os
import re
import shutil
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic

import numpy as np
import yaml

from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.rules.recording_rules.rules import rules
from lockstep.analyzer.rules.recording_rules.survey import survey
from tests.benchmarks.prometheus_server import prometheus

TP = 8
LIVE_SECONDS = 150.0
"""Of scrapes and evaluations, before what they cost is measured."""
TRIES = 3
FAILED = re.compile(r"prometheus_rule_evaluation_failures_total\{[^}]*\} ([1-9]\S*)")
SERIES = re.compile(r"^prometheus_tsdb_head_series (\S+)", re.MULTILINE)
TICKS = os.sysconf("SC_CLK_TCK")


def rules_at_work(folder: Path, ranks: int) -> dict[str, float]:
    """CPU and wall seconds of all rules once, and of a pass of the reader; memory of Prometheus."""
    if shutil.which("prometheus") is None:
        raise SystemExit("the benchmark needs Debian's package prometheus")
    (folder / "rules.yml").write_text(rules())
    with _page(ranks) as target:
        live = {
            "global": {"scrape_interval": "15s", "scrape_timeout": "15s"},
            "rule_files": [str(folder / "rules.yml")],
            "scrape_configs": [{"job_name": "lockstep", "static_configs": [{"targets": [target]}]}],
        }
        with prometheus(folder, live) as (url, process):
            time.sleep(LIVE_SECONDS)
            told = urllib.request.urlopen(f"{url}/metrics", timeout=60).read().decode()
            memory, moment = _megabytes(process), time.clock_gettime(time.CLOCK_REALTIME) - 20.0
    if FAILED.search(told):
        raise RuntimeError("a recording rule failed")
    groups = yaml.safe_load(rules())["groups"]
    with prometheus(folder, {}) as (url, process), Connection(access(url, {})) as connection:
        spent = [
            [_least(process, partial(_ask, url, rule["expr"], moment)) for rule in one]
            for one in (group["rules"] for group in groups)
        ]
        read = _least(process, lambda: survey(connection, None, moment))
    return {
        "rules_ranks": ranks,
        "rules_cpu_seconds": sum(cpu for group in spent for cpu, _ in group),
        "rules_wall_seconds": sum(wall for group in spent for _, wall in group),
        "rules_longest_group_cpu_seconds": max(sum(cpu for cpu, _ in group) for group in spent),
        "rules_prometheus_megabytes": memory,
        "rules_series": float(SERIES.findall(told)[0]),
        "survey_real_cpu_seconds": read[0],
        "survey_real_wall_seconds": read[1],
    }


def _least(process: int, work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of a process, and wall seconds, of the cheapest of TRIES."""
    found = []
    for _ in range(TRIES):
        cpu, begin = _cpu(process), monotonic()
        work()
        found.append((_cpu(process) - cpu, monotonic() - begin))
    return min(found)


def _ask(url: str, text: str, moment: float) -> bytes:
    words = urllib.parse.urlencode({"query": text, "time": f"{moment:.3f}"}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=words, timeout=300) as response:
        answer: bytes = response.read()
    return answer


@contextlib.contextmanager
def _page(ranks: int) -> Iterator[str]:
    """An address whose page tells of all ranks, made anew for each scrape."""
    names = [_lines(rank, ranks) for rank in range(ranks)]
    own = 0.84 * (1 + 0.02 * np.random.default_rng(0).standard_normal(ranks))
    began = monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            steps = int(monotonic() - began)
            body = "".join(
                f"{info} 1\n{up} 1\n{done} {steps}\n{known} {steps}\n{mine} {steps * took:.6f}\n"
                f"{inside} {steps * (1 - took):.6f}\n{count} {steps}\n"
                f"{celsius} {60 + took:.3f}\n{clock} {1.98e9 - 1e6 * took:.0f}\n"
                f"{power} {600 + 10 * took:.2f}\n"
                for (
                    info,
                    up,
                    done,
                    known,
                    mine,
                    inside,
                    count,
                    celsius,
                    clock,
                    power,
                ), took in zip(names, own.tolist(), strict=True)
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):  # Prometheus gives up after 15 s
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _lines(rank: int, ranks: int) -> tuple[str, ...]:
    mine = f'run="team.gpt.0123abcd",rank="{rank}"'
    gpu = f'gpu="{rank % TP}",uuid="GPU-8f14e45f-ceea-467f-a834-{rank:012d}"'
    place = (
        f'attempt="0",local_rank="{rank % TP}",world_size="{ranks}",dp="{rank // TP}",pp="0",'
        f'tp="{rank % TP}",ep="0",cp="0",node="gpu-node-{rank // TP:05d}",pid="1"'
    )
    return (
        f"lockstep_rank_info{{{mine},{place},{gpu}}}",
        f"lockstep_rank_up{{{mine}}}",
        f"lockstep_train_steps_total{{{mine}}}",
        f"lockstep_train_known_steps_total{{{mine}}}",
        f"lockstep_train_own_seconds_total{{{mine}}}",
        f'lockstep_train_collective_seconds_total{{{mine},group="dp"}}',
        f'lockstep_train_collectives_total{{{mine},group="dp"}}',
        f'lockstep_gpu_temperature_celsius{{{gpu},sensor="gpu"}}',
        f'lockstep_gpu_clock_hertz{{{gpu},domain="sm"}}',
        f"lockstep_gpu_power_watts{{{gpu}}}",
    )


def _cpu(process: int) -> float:
    """Seconds of all its threads so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _megabytes(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text()
    [kilobytes] = re.findall(r"VmHWM:\s+(\d+) kB", text)
    return int(kilobytes) / 1e3
