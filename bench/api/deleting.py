"""Removing a run that is over, with its archive, and nothing else of this disk."""

import shutil
import threading
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex

from lockstep.bench.api.reading import Reading
from lockstep.bench.api.refusal import Refusal, conflict
from lockstep.bench.api.starting import Starting
from lockstep.collector.contract.archive import FINDING_FILE, RUN_FILE
from lockstep.runs.claim import claim_folder
from lockstep.terminal.output import CommandError

_ONE = threading.Lock()


def delete(reading: Reading, starting: Starting, name: str) -> None:
    """Remove a run.

    Raises:
        Refusal: There is none, it is not over, or its archive is not ours to remove.
    """
    with _ONE:
        entry = starting.entry(name)
        if entry is not None and not entry.over.is_set():
            raise conflict("not_over", f"the run {name} is {entry.state()}; stop it first")
        try:
            folder = reading.archive(name)
        except Refusal as refusal:
            if entry is None or refusal.error != "unknown_run":
                raise
        else:
            _remove(reading, name, folder)
        starting.forget(name)


def _remove(reading: Reading, name: str, folder: Path) -> None:
    ours = folder.parent == reading.folder and not folder.is_symlink()
    if not ours or (folder / FINDING_FILE).exists():
        raise conflict(
            "not_ours", f"the archive of {name} is one of lockstep watch, which keeps it"
        )
    gone = reading.folder / f".deleted-{name[:40].replace('/', '-')}-{token_hex(4)}"
    try:
        with claim_folder(folder):
            if (folder / RUN_FILE).exists():
                folder.rename(gone)  # from here on nobody sees half of it
        with suppress(OSError):
            folder.rmdir()  # somebody else removed it, and the lock made it anew
        if not gone.exists():
            raise reading.unknown(name)
        shutil.rmtree(gone)
    except CommandError as error:
        if "being written" in error.sentence:
            raise conflict(
                "not_over", f"the run {name} is still being written; stop it, or wait for its end"
            ) from None
        raise _kept(name, error.sentence) from None
    except OSError as error:
        raise _kept(name, error.strerror or str(error)) from None


def _kept(name: str, why: str) -> Refusal:
    return Refusal(HTTPStatus.CONFLICT, "not_removed", f"the run {name} is not removed: {why}")
