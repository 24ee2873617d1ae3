"""How commands speak: data on stdout, progress on stderr, failures as one sentence and a code.

Whatever is written goes through `visible`: names, logs and errors from outside steer no terminal.
"""

import io
import json
import logging
import os
import re
import select
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NoReturn, TextIO

from lockstep.collector.contract.visible import visible, visible_line
from lockstep.collector.contract.words import ExitCode

JSON_SEPARATORS = (",", ":")
MIN_REDRAW_SECONDS = 0.1
DEBUG_VARIABLE = "LOCKSTEP_DEBUG"
"""Set in the environment: tracebacks are shown."""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
_LEAD = re.compile(f"{re.escape(BOLD)}([^\x1b]*){re.escape(PLAIN)}")


class Format(StrEnum):
    """How a command prints its data."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class CommandError(Exception):
    """Ends the command with an exit code and one sentence on stderr."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def fail(code: int, sentence: str) -> NoReturn:
    """Ends the command: the sentence names the thing that is wrong and what would be right.

    Raises:
        CommandError: Always; the command line prints the sentence and exits with the code.
    """
    raise CommandError(code, sentence)


def data(text: str) -> None:
    """Writes a result to stdout; a reader that went away is no error.

    Args:
        text: Nothing in it steers a terminal, but for an `emphasis` that it begins with.

    Raises:
        CommandError: 69, stdout cannot be written.
    """
    lead = _LEAD.match(text) if is_colourful() else None
    begin, rest = ("", text) if lead is None else (emphasis(lead[1]), text[lead.end() :])
    try:
        print(begin + visible(rest), flush=True)
    except BrokenPipeError:
        forget_stdout()
    except OSError as error:  # a full disk
        forget_stdout()
        fail(ExitCode.UNREACHABLE, f"stdout cannot be written: {error.strerror}")


def forget_stdout() -> None:
    """Let stdout go nowhere: the interpreter flushes it once more at exit, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reader_left() -> bool:
    """Whether who read stdout or stderr has gone: of a pipe, the other end is closed."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # it was closed, or is no file
            poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def speak_plainly() -> None:
    """Spell out what a stream cannot encode, as in the locale C, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is one; None = it was closed before we began."""
    return stream is not None and stream.isatty()


def document(tree: Mapping[str, Any], form: Format, table: str) -> None:
    """Prints one result: its table for people, or its tree as indented or one-line JSON."""
    match form:
        case Format.TABLE:
            data(table)
        case Format.JSON:
            unicode = "utf" in str(getattr(sys.stdout, "encoding", None)).lower()
            data(json.dumps(tree, indent=2, ensure_ascii=not unicode, allow_nan=False))
        case Format.JSONL:
            data(json.dumps(tree, separators=JSON_SEPARATORS, allow_nan=False))


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, two spaces apart, under their header."""
    lines = [[visible_line(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def note(text: str) -> None:
    """Writes to stderr."""
    _say(visible(text) + "\n")


def _say(text: str) -> None:
    """To stderr; nobody can be told where that was closed, or went away."""
    if sys.stderr is not None:
        with suppress(BrokenPipeError):
            print(text, end="", file=sys.stderr, flush=True)


def emphasis(text: str) -> str:
    """One line in bold where stdout is a terminal that wants it."""
    line = visible_line(text)
    return f"{BOLD}{line}{PLAIN}" if is_colourful() else line


def is_colourful() -> bool:
    """Whether stdout is a terminal that wants colour (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and is_terminal(sys.stdout)


class Progress:
    """A line on stderr that updates in place on a terminal, and plain lines elsewhere.

    Elsewhere a line is written when its `stage` changes or `plain_seconds` after the last one, so
    that a log stays short.

    Attributes:
        terminal: Whether stderr is one.
    """

    def __init__(self, plain_seconds: float = 5.0) -> None:
        self.terminal = is_terminal(sys.stderr)
        self._pause = MIN_REDRAW_SECONDS if self.terminal else plain_seconds
        self._stage: str | None = None
        self._shown_at = 0.0
        self._open = False

    def __call__(self, stage: str, text: str = "") -> None:
        """Shows where the work stands."""
        now = time.monotonic()
        if stage == self._stage and now - self._shown_at < self._pause:
            return
        if stage != self._stage:
            self.close()
        self._stage, self._shown_at = stage, now
        line = visible_line(f"{stage}: {text}" if text else stage)
        if self.terminal:
            _say(f"\r\x1b[2K{line}")
            self._open = True
        else:
            note(line)

    def close(self) -> None:
        """Ends the line that is being updated; what follows starts on a fresh one."""
        if self._open:
            _say("\n")
            self._open = False


# A failure that must not end a service is one sentence; `--debug` adds the traceback.

LOG = logging.getLogger(__name__)


def bug(what: str, error: Exception) -> None:
    """Say that something failed that should not have."""
    LOG.error(
        "%s: %s; this is a bug, and lockstep --debug shows where",
        what,
        f"{type(error).__name__}: {error}".partition("\n")[0],
        exc_info=error if os.environ.get(DEBUG_VARIABLE) else None,
    )
