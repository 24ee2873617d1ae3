"""A folder for runs, and a program in the place of `lockstep`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.dashboard.starting import process, registry
from lockstep.dashboard.starting.registry import Registry

FAKE = Path(__file__).with_name("fake_program.py")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry whose runs are the stand-in's; what still goes on is killed at the end."""
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, str(FAKE)))
    made = registry.of(tmp_path)
    yield made
    job = made.job
    if job is not None and not job.over:
        monkeypatch.setattr(process, "PATIENCE", ((process.signal.SIGKILL, 5.0),))
        job.stop()
        assert job.wait(10)
