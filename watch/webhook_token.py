"""The token that `POST /alertmanager` asks for, made when there is none yet."""

import contextlib
import logging
import os
import secrets
from pathlib import Path

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

LOG = logging.getLogger(__name__)

FILE = "webhook-token"
MAX_BYTES = 4096
TOKEN_BYTES = 32


def ensure_token_file(folder: Path) -> Path:
    """The file with the token in a folder; written, for its owner only, if it is not there.

    Raises:
        CommandError: 69, it cannot be read, or not be written.
    """
    path = folder / FILE
    try:
        if read(path) is not None:
            return path
    except OSError as error:  # somebody else's, which he has given to an Alertmanager
        fail(ExitCode.UNREACHABLE, f"{path} cannot be read: {error.strerror}; allow it, as it"
             " holds the webhook's token, or give --webhook-token-file FILE")  # fmt: skip
    new = folder / f".{FILE}.{os.getpid()}"
    try:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()  # of a process of the same number that was killed here
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
            file.flush()
            os.fsync(handle)
        new.replace(path)
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"{path} cannot be written: {error.strerror}; it would hold the"
             " token of the webhook, or give --webhook-token-file FILE")  # fmt: skip
    LOG.warning("the token that POST /alertmanager asks for is in %s", path)
    return path


def read(path: Path) -> bytes | None:
    """The token in a file; None where there is none: no file, or nothing in it.

    Raises:
        OSError: It cannot be read; what is in it is not known.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).strip() or None
    except FileNotFoundError:
        return None
