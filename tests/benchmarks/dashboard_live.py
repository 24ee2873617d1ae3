"""Now, Cluster and Run in a headless Chromium over a live Prometheus of 500 nodes of 8 GPUs.

The pages of the collectors are simulated; Prometheus, its recording rules and the dashboard are
real. Seconds are those of a page change within the app, after the first one. LIVE_NODES makes the
fleet smaller, LIVE_HISTORY (seconds) the time that is recorded before anybody looks, and LIVE_MORE
the series of each node larger: by so many that no page asks for.
"""

import os
import shutil
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.benchmarks import prometheus_server
from tests.benchmarks.dashboard_browser import CHEAP, CHROMIUM, visitor
from tests.benchmarks.watch_pages import GPUS, Cluster, served

NODES = int(os.environ.get("LIVE_NODES", "500"))
HISTORY = float(os.environ.get("LIVE_HISTORY", "240"))
MORE = int(os.environ.get("LIVE_MORE", "300"))
INTERVAL = 15.0
TRIES = 10
SLOW_RANK, FACTOR = 1234 % (GPUS * NODES), 1.5
RULES = Path(__file__).parents[2] / "deploy" / "rules" / "lockstep-peers.rules.yml"
GOALS = {f"{title}, s, p90": 1.0 for title in ("Now", "Cluster", "Run")}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most; nothing without a Chromium."""
    if CHROMIUM is None or shutil.which("prometheus") is None:
        return {}
    cluster = Cluster(NODES)
    cluster.slow[SLOW_RANK] = FACTOR
    cluster.more = _more
    with TemporaryDirectory() as name:
        folder = Path(name)
        targets = folder / "targets.json"
        targets.write_text("[]")
        every = f"{INTERVAL:g}s"
        config = {
            "global": {"scrape_interval": every, "scrape_timeout": every,
                       "evaluation_interval": every},
            "rule_files": [str(RULES)],
            "scrape_configs": [{
                "job_name": "lockstep-collector",
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
            }],
        }  # fmt: skip
        with (
            served(cluster, targets) as pages,
            prometheus_server.prometheus(folder, config) as (url, _),
        ):
            series = _series(f"http://{pages}/0")
            time.sleep(HISTORY)
            figures = _looked(url, cluster.run)
    return figures | {
        "nodes": float(NODES), "series a node": series, "load average": os.getloadavg()[0],
    }  # fmt: skip


def _looked(url: str, run: str) -> dict[str, float]:
    """Each page in turn, from Data health and back."""
    taken: dict[str, list[float]] = {"Now": [], "Cluster": [], "Run": []}
    source = {"kind": "prometheus", "url": url}
    with visitor(source, f"&run={run}") as somebody:
        for _ in range(TRIES + 1):
            for title, seconds in taken.items():
                seconds.append(somebody.go(title))
                somebody.go(CHEAP)
        figures = {"resident memory of the server, MB": somebody.resident_mb()}
    for title, seconds in taken.items():
        p50, p90 = np.quantile(seconds[1:], [0.5, 0.9])
        figures |= {f"{title}, s, first": seconds[0], f"{title}, s, p50": float(p50),
                    f"{title}, s, p90": float(p90)}  # fmt: skip
    return figures


def _more(node: int) -> str:
    """What else a node tells: its GPUs, and series that no page asks for."""
    gpus = [
        f'lockstep_gpu_info{{gpu="{gpu}",uuid="GPU-{node * GPUS + gpu:08d}",model="simulated",'
        'driver="simulated",simulated="true"} 1'
        for gpu in range(GPUS)
    ]
    rest = [f'lockstep_net_phy_errors_total{{device="d{each}"}} 0' for each in range(MORE)]
    return "\n".join([*gpus, *rest]) + "\n"


def _series(address: str) -> float:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return float(sum(not line.startswith(b"#") for line in answer.read().splitlines()))
