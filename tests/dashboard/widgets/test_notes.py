"""Tags and notes on the page of a run: who may write, and that nothing becomes markup."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from lockstep.dashboard import context
from lockstep.dashboard.context import Settings
from lockstep.dashboard.sources import notes
from lockstep.dashboard.sources.archive.source import ArchiveSource
from tests.dashboard.apps import everything, look
from tests.dashboard.archives import Made

HOSTILE = "![x](http://evil) <img src=x onerror=alert(1)>"


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.Settings, "read", lambda _: Settings(local=True))


@pytest.fixture
def mine(straggling: Path, tmp_path: Path) -> Path:
    """An archive that may be written beside; that of all tests may not."""
    return Path(shutil.copytree(straggling, tmp_path / straggling.name))


def test_on_loopback_a_note_is_kept_and_shown_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, mine: Path, local: Any
) -> None:
    app = look(monkeypatch, ArchiveSource(mine), "run", run=Made().name)
    app.text_area(key="note-text").input(HOSTILE)
    app.button[0].click().run()
    [kept] = notes.read(mine).notes
    assert (HOSTILE, "somebody on this machine") == (kept.text, kept.by)
    again = look(monkeypatch, ArchiveSource(mine), "run", run=Made().name)
    assert HOSTILE in [each.value for each in again.text]
    assert not [each for each in again.markdown if "<img" in each.value]


def test_tags_are_in_the_list_of_runs_and_found_there(
    monkeypatch: pytest.MonkeyPatch, mine: Path
) -> None:
    notes.tagged(mine, ["baseline", "fw-570"])
    app = look(monkeypatch, ArchiveSource(mine), "runs", q="fw-570")
    assert ["baseline fw-570"] == app.dataframe[0].value["tags"].tolist()


def test_who_is_neither_here_nor_logged_in_reads_only(
    monkeypatch: pytest.MonkeyPatch, mine: Path
) -> None:
    notes.noted(mine, notes.Note(1.0, "alice", "see OPS-1"))
    app = look(monkeypatch, ArchiveSource(mine), "run", run=Made().name)
    assert "see OPS-1" in everything(app)
    assert not app.text_area
