"""A real dashboard in a process of its own, over the archive of a real run."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lockstep.collector.contract.words import ExitCode
from tests.dashboard.browser.serving import ROOT, running

RUN_SECONDS = 500
"""For a run that takes some ten seconds alone: how long it takes is not what is tested."""
ATTEMPTS = 3
"""On a busy machine a short run may name nobody; pages about a culprit need one."""


@pytest.fixture(scope="session")
def address(browser: Browser, archive: Path) -> Iterator[str]:
    """Of the one dashboard of all tests that start no run: over the folder of the archive."""
    with running({"kind": "folder", "path": archive.parent}, {}) as where:
        yield where


@pytest.fixture(scope="session")
def archive(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a real run of three ranks, rank 1 (node-1, GPU 0) too hot from step 40 on.

    It asks for the browser first: without one nothing needs to be run.
    """
    folder = tmp_path_factory.mktemp("real") / "runs" / "gpt"
    words = "run gpt --nodes 3 --ranks-per-node 1 --model tiny --steps 100 --seed 3"
    fault = "thermal:rank=1,factor=3,from=40"
    for _ in range(ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        _lockstep(*words.split(), "--fault", fault, "--out", str(folder))
        if _lockstep("analyze", str(folder)) == ExitCode.CULPRIT:
            break
    return folder


def _lockstep(*words: str) -> int:
    """Runs a command; analyze says by its status whom it named."""
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words], cwd=ROOT, capture_output=True, text=True,
        timeout=RUN_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2, 3):
        pytest.fail(f"lockstep {words[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.returncode
