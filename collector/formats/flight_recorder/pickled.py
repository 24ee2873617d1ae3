"""A dump that is a pickle, as JSON: by a child process that is bounded in memory and time."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.readings.source import SourceError

if TYPE_CHECKING:
    import subprocess

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
    done = _ran(data)
    if done.returncode == 0:
        return done.stdout
    if done.returncode == -signal.SIGKILL:
        raise SourceError("too_large", "the dump takes too long to read, or too much memory")
    reason, _, words = done.stderr.decode("utf-8", "replace").partition(" ")
    if reason not in _REASONS:
        reason, words = "content", f"the process that read the dump ended with {done.returncode}"
    raise SourceError(reason, words)


def many_as_json(dumps: Sequence[bytes]) -> list[bytes | SourceError]:
    """`as_json` of each, an error in its place, by one child as long as none breaks its bounds."""
    if not dumps:
        return []
    framed = b"".join(len(data).to_bytes(8, "little") + data for data in dumps)
    try:
        done = _ran(framed, "--many")
        answers = list(_answers(done.stdout)) if done.returncode == 0 else []
    except SourceError:
        answers = []
    if len(answers) == len(dumps):
        return answers
    return [_one(data) for data in dumps]


def _one(data: bytes) -> bytes | SourceError:
    try:
        return as_json(data)
    except SourceError as error:
        return error


def _answers(output: bytes) -> Iterator[bytes | SourceError]:
    offset = 0
    while offset < len(output):
        size = int.from_bytes(output[offset : offset + 8], "little")
        answer = output[offset + 8 : offset + 8 + size]
        offset += 8 + size
        if answer[:1] == b"!":
            reason, _, words = answer[1:].decode("utf-8", "replace").partition(" ")
            yield SourceError(reason if reason in _REASONS else "content", words)
        else:
            yield answer


def _ran(data: bytes, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    """The child, when it has ended.

    Raises:
        SourceError: `timeout` and `no_process`, this machine is too busy.
    """
    import subprocess  # not needed where no dump is

    # Nothing of the environment, but for where a Python outside of the usual places has libraries.
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        return subprocess.run(
            [sys.executable, "-I", "-S", _CHILD, *arguments],
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
