"""A report made again: `lockstep report DIR` in a process of its own, one at a time."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from lockstep.dashboard.starting import process
from lockstep.dashboard.starting.world import environment

PATIENCE_SECONDS = 300.0
WORDS_AT_MOST = 500
_ONE = threading.Lock()


def why_not(runs: Path | None, folder: Path) -> str:
    """Empty if pages may write into a folder, else why not, as a sentence."""
    if runs is None:
        return "This dashboard only reads: it was started without --runs."
    if not folder.resolve().is_relative_to(runs.resolve()):
        return f"This dashboard writes below {runs} only."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"This process may not write to {folder}."
    return ""


def remake(folder: Path) -> str:
    """Empty if the report was written, else what is wrong, as a sentence."""
    if not _ONE.acquire(blocking=False):
        return "A report is being made already; try again in a moment."
    guarded = (sys.executable, "-m", "lockstep.dashboard.starting.child", str(os.getpid()))
    try:
        # First analyze: pages show its verdict.json, and the report says the same.
        for command in ("analyze", "report"):
            done = subprocess.run(
                [*guarded, *process.PROGRAM, command, str(folder)], env=environment(),
                stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS,
                check=False, start_new_session=True,
            )  # fmt: skip
            if not 0 <= done.returncode <= (3 if command == "analyze" else 0):
                said = done.stderr.decode(errors="replace").strip().splitlines() or [""]
                return f"lockstep {command} ended with code {done.returncode}. {said[-1]}"[
                    :WORDS_AT_MOST
                ]
    except subprocess.TimeoutExpired:
        return f"The report was not ready after {PATIENCE_SECONDS:.0f} s, and was given up."
    except OSError as error:
        return f"The report could not be made: {error.strerror}."
    finally:
        _ONE.release()
    return ""
