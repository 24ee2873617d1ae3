"""Archives in a real Prometheus: their samples as OpenMetrics, backfilled by promtool."""

import contextlib
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from lockstep.collector.contract import metrics as m

LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
PLACE = ("local_rank", "dp", "pp", "tp")


def open_metrics(archives: list[Path]) -> str:
    """What Prometheus would have scraped while these runs took place."""
    lines: dict[str, list[str]] = {}
    for archive in archives:
        samples = pq.read_table(archive / "samples.parquet").to_pandas()
        ranks = pq.read_table(archive / "ranks.parquet").to_pandas()
        run = _run(archive)
        uuid = {(one.node, one.gpu): one.uuid for one in ranks.itertuples()}
        infos = _infos(samples, ranks, run)
        keys = ["node", "gpu", "rank", "metric", "labels"]
        for (node, gpu, rank, name, text), rows in samples.groupby(keys, dropna=False, sort=False):
            if name == m.RANK_INFO.name:
                continue
            words = dict(LABEL.findall(text)) | {"job": "lockstep", "instance": f"{node}:9410"}
            words |= {} if name in (m.NODE_EXPECTED.name,) else {"node": node}
            if not pd.isna(gpu):
                words |= {"gpu": f"{gpu:.0f}", "uuid": uuid.get((node, gpu)) or "GPU-x"}
            if not pd.isna(rank):
                words |= {"run": run, "rank": f"{rank:.0f}"}
            _add(lines, name, words, rows["time"], rows["value"])
        for words, times in infos:
            _add(lines, m.RANK_INFO.name, words, times, [1.0] * len(times))
    parts = [f"# TYPE {name} unknown\n" + "".join(rows) for name, rows in lines.items()]
    return "".join(parts) + "# EOF\n"


def _run(archive: Path) -> str:
    return re.search(r'"run": "([^"]*)"', (archive / "run.json").read_text())[1]


def _infos(samples: pd.DataFrame, ranks: pd.DataFrame, run: str) -> list:
    found = []
    for one in ranks.itertuples():
        times = samples.loc[
            (samples["node"] == one.node) & (samples["metric"] == m.RANK_UP.name)
            & (samples["rank"] == one.rank), "time"]  # fmt: skip
        words = {
            "run": run, "rank": str(one.rank), "attempt": "0", "world_size": str(len(ranks)),
            "exported_node": one.node, "node": one.node, "job": "lockstep",
            "instance": f"{one.node}:9410", **{name: str(getattr(one, name)) for name in PLACE},
        }  # fmt: skip
        if not pd.isna(one.gpu):
            words |= {"gpu": f"{one.gpu:.0f}", "uuid": one.uuid}
        found.append((words, times))
    return found


def _add(lines: dict[str, list[str]], name: str, words: dict[str, str], times, values) -> None:
    text = ",".join(f'{label}="{value}"' for label, value in words.items() if value)
    rows = lines.setdefault(name, [])
    rows += [f"{name}{{{text}}} {value!r} {at:.3f}\n"
             for at, value in sorted(dict(zip(times, values, strict=True)).items())]  # fmt: skip


@contextlib.contextmanager
def served(folder: Path, text: str) -> Iterator[str]:
    """The URL of a Prometheus that has these samples, and scrapes nothing."""
    assert shutil.which("prometheus") is not None
    (folder / "samples.txt").write_text(text)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", "-r",
         folder / "samples.txt", folder / "db"],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/db",
        f"--web.listen-address={own}", "--log.level=error", "--storage.tsdb.retention.time=100y",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://{own}/-/ready", timeout=5).close()
                    break
                time.sleep(0.05)
            yield f"http://{own}"
        finally:
            process.terminate()
