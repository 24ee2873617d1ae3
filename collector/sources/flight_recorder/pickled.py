"""A dump that is a pickle, as JSON: by a child process that is bounded in memory and time."""

import os
import signal
import sys
from pathlib import Path

from collector.reading import SourceError

DEADLINE_SECONDS = 15.0
"""Three times what it may compute: the machine may be busy."""
_CHILD = str(Path(__file__).with_name("unpickle.py"))
_REASONS = frozenset(("unsafe", "content", "too_large"))


def as_json(data: bytes) -> bytes:
    """The same tree, without the stack traces.

    Raises:
        SourceError: `unsafe`, it could run code; `content`, it is no pickle of plain data;
            `too_large`, it takes too much; `timeout` and `no_process`, this machine is too busy.
    """
    import subprocess  # not needed where no dump is

    # Nothing of the environment, but for where a Python outside of the usual places has libraries.
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", _CHILD],
            input=data,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        text = f"the process that reads the dump did not end in {DEADLINE_SECONDS:g} s"
        raise SourceError("timeout", text) from error
    except OSError as error:
        text = f"the process that reads the dump cannot be started: {error.strerror}"
        raise SourceError("no_process", text) from error
    if done.returncode == 0:
        return done.stdout
    if done.returncode == -signal.SIGKILL:
        raise SourceError("too_large", "the dump takes too long to read, or too much memory")
    reason, _, words = done.stderr.decode("utf-8", "replace").partition(" ")
    if reason not in _REASONS:
        reason, words = "content", f"the process that read the dump ended with {done.returncode}"
    raise SourceError(reason, words)
