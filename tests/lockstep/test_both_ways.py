"""A real run, recorded as an archive and by Debian's Prometheus, has one verdict."""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lockstep.runs.leftovers import SHARED_MEMORY

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.distributed,
    pytest.mark.timed,
    pytest.mark.timeout(900),
]

# The fault is large, because other tests may be using the same cores: it must stand out anyway.
RUN = ["gpt", "--nodes", "3", "--steps", "300", "--fault", "thermal:rank=2,factor=3,from=120"]
PATIENCE_SECONDS = 240.0


@pytest.fixture
def prometheus(tmp_path) -> Iterator[tuple[str, Path]]:
    """(URL, file with the targets) of a Prometheus that scrapes every second."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    targets = tmp_path / "targets.json"
    targets.write_text("[]")
    discovery = [{"files": [str(targets)], "refresh_interval": "1s"}]
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps({  # which is YAML too
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "lockstep", "file_sd_configs": discovery}],
    }))  # fmt: skip
    process = subprocess.Popen(
        [
            program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/tsdb",
            f"--web.listen-address={own}", "--log.level=error",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{own}/-/ready", timeout=5).close()
                break
            time.sleep(0.2)
        yield f"http://{own}", targets
    finally:
        process.terminate()
        process.wait(240)


@pytest.fixture
def record(prometheus, tmp_path) -> Callable[[int], tuple[Path, str, str]]:
    """`record(n)`: (archive, URL, run id) of a run whose rank 2 is thermally throttled."""
    url, targets = prometheus

    def scraped(number: int) -> tuple[Path, str, str]:
        archive = tmp_path / f"run-{number}"
        words = [*RUN, "--no-verdict", "--out", str(archive)]
        command = [sys.executable, "-m", "lockstep", "run", *words]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
            try:
                name = scrape(run, archive, targets)
                assert 0 == run.wait(PATIENCE_SECONDS)
            finally:
                if run.poll() is None:
                    run.terminate()
        return archive, url, name

    return scraped


def scrape(run: subprocess.Popen[bytes], archive: Path, targets: Path) -> str:
    """Has Prometheus scrape the collectors of a run that begins; its id."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    name, addresses = "", []
    while len(addresses) < 3 and time.monotonic() < deadline and run.poll() is None:
        time.sleep(0.1)
        with contextlib.suppress(OSError, ValueError):
            name = json.loads((archive / "run.json").read_text())["run"]
            folder = SHARED_MEMORY / name
            addresses = [path.read_text().strip() for path in folder.glob("*.address")]
    complete = targets.with_suffix(".new")
    complete.write_text(json.dumps([{"targets": addresses}]))
    complete.replace(targets)
    return name


def test_archive_and_prometheus_name_the_same_culprit_and_cause(record, decided, lockstep):
    def judged(attempt):
        archive, url, name = record(attempt)
        both = ([archive], ["--prometheus", url, "--run", name])
        return [lockstep("analyze", *words, "-o", "json").out for words in both]

    verdicts = decided(judged)
    named = [
        [
            (one["rank"], one["node"], one["gpu"], one["uuid"], one["cause"])
            for one in each["culprits"]
        ]
        for each in verdicts
    ]

    assert ["degraded", "degraded"] == [each["status"] for each in verdicts]
    assert [2] == [rank for rank, *_ in named[0]]
    assert named[0] == named[1]
    assert "thermal" == verdicts[0]["culprits"][0]["cause"]
    assert min(each["coverage"] for each in verdicts) > 0.8
