"""Made-up pages and fleets, in promtool and in a real Prometheus, with the recording rules."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from lockstep.analyzer.rules.recording_rules.rules import rules
from tests.analyzer.rules.recording_rules.fleet import Fleet, openmetrics
from tests.analyzer.rules.recording_rules.pages import Pages

LEVELS = (
    ("place",), ("rank:count", "collective1m", "avg1m"), ("train_wait_seconds:avg1m",),
    ("count", "med"), ("mad",), ("z",),
)  # fmt: skip
"""Ends of the names that are recorded together: promtool's backfill sees nothing that it makes
itself, so what builds on others comes after them."""


class Recorded:
    """Prometheus' files, and Prometheus itself between two backfills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "tsdb"
        (folder / "prometheus.yml").write_text("{}")

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            own = f"127.0.0.1:{free.getsockname()[1]}"
        command = [
            "prometheus", f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.data}", f"--web.listen-address={own}",
            "--log.level=error",
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(600):
                    with contextlib.suppress(OSError):
                        urllib.request.urlopen(f"http://{own}/-/ready", timeout=5).close()
                        break
                    time.sleep(0.05)
                yield f"http://{own}"
            finally:
                process.terminate()

    def fill(self, fleet: Fleet, start: float) -> None:
        """The fleet's samples, and, level by level, what the rules record of them."""
        text = self.folder / "samples.txt"
        text.write_text(openmetrics(fleet, start))
        _promtool("tsdb", "create-blocks-from", "openmetrics", str(text), str(self.data))
        named = [rule for group in yaml.safe_load(rules())["groups"] for rule in group["rules"]]
        for level in LEVELS:
            mine = [rule for rule in named if rule["record"].endswith(level)]
            if "avg1m" in level:
                mine = [rule for rule in mine if not rule["record"].endswith(LEVELS[2])]
            file = self.folder / "level.yml"
            file.write_text(json.dumps({"groups": [{"name": "level", "rules": mine}]}))
            with self.serving() as url:
                _promtool(
                    "tsdb", "create-blocks-from", "rules", f"--url={url}",
                    f"--start={start:.0f}", f"--end={start + fleet.times[-1]:.0f}",
                    "--eval-interval=15s", f"--output-dir={self.data}", str(file),
                )  # fmt: skip


def _promtool(*words: str) -> None:
    answer = subprocess.run(["promtool", *words], capture_output=True, text=True)
    assert 0 == answer.returncode, answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Iterator[Callable[[Fleet], contextlib.AbstractContextManager]]:
    """`with recorded(fleet) as url`: a Prometheus that has the fleet and what the rules record."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        pytest.skip("prometheus is not installed")

    def make(fleet: Fleet) -> contextlib.AbstractContextManager[str]:
        kept = Recorded(tmp_path_factory.mktemp("prometheus"))
        length = float(fleet.times[-1])
        kept.fill(fleet, (time.time() - length) // 15 * 15 - 60)
        return kept.serving()

    return make


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def says(tmp_path) -> Callable[[Pages, str, str, Sequence[tuple[str, float]]], None]:
    """`says(pages, moment, expression, [(labels, value)])`: promtool finds just these samples."""

    def check(pages: Pages, moment: str, expression: str, samples: Sequence) -> None:
        promtool = shutil.which("promtool")
        if promtool is None:
            pytest.skip("promtool is not installed")
        (tmp_path / "rules.yml").write_text(rules())
        found = [{"labels": labels, "value": value} for labels, value in samples]
        test = {
            "interval": "15s",
            "input_series": [
                {"series": name, "values": values} for name, values in pages.series.items()
            ],
            "promql_expr_test": [
                {"expr": expression, "eval_time": moment, "exp_samples": found},
            ],
        }
        document = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": [test]}
        (tmp_path / "test.yml").write_text(json.dumps(document))  # which is YAML too
        answer = subprocess.run(
            [promtool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True
        )
        assert 0 == answer.returncode, answer.stdout + answer.stderr

    return check
