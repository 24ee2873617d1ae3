"""Who may ask: a bearer token, out of the environment or a file; it is never logged."""

import hmac
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail, note
from lockstep.workloads.sdk.client.calls import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE

FILE = "api-token"
MAX_BYTES = 4096
TOKEN_BYTES = 32


class Bearer:
    """Compares what is given with the token, which is read anew so that it may be renewed.

    Args:
        read: The token; None or an error = nobody can know it, and nobody is let in.
    """

    def __init__(self, read: Callable[[], bytes | None]) -> None:
        self._read = read

    def allows(self, authorization: str) -> bool:
        """Whether a header Authorization has the token; it takes as long whatever was given."""
        token: bytes | None = None
        with suppress(OSError):
            token = self._read()
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token or b"")
        return right and bool(token) and scheme.lower() == "bearer"


def bearer(file: Path | None, folder: Path | None) -> Bearer | None:
    """By the first of: a file that was named, the environment, a file that is made in a folder.

    Args:
        file: That was named.
        folder: Where one is made, for its owner only; None = none is made.

    Returns:
        None where no token is known and none is made.

    Raises:
        CommandError: 65, the token cannot be read or is empty; 69, none can be made.
    """
    named = file or _of_environment()
    if named is None and (word := os.environ.get(TOKEN_VARIABLE)) is not None:
        token = word.strip().encode("utf-8", "replace")
        if not token:
            fail(ExitCode.BAD_INPUT, f"{TOKEN_VARIABLE} is empty; it must hold the token")
        return Bearer(lambda: token)
    if named is None and folder is None:
        return None
    path = named if named is not None else _made(folder or Path())
    try:
        empty = read(path) is None
    except OSError as error:
        fail(ExitCode.BAD_INPUT, f"the token's file {path} cannot be read: {error.strerror}")
    if empty:
        fail(ExitCode.BAD_INPUT, f"the token's file {path} is empty or not there")
    return Bearer(lambda: read(path))


def read(path: Path) -> bytes | None:
    """The token in a file; None where there is none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).strip() or None
    except FileNotFoundError:
        return None


def _of_environment() -> Path | None:
    word = os.environ.get(TOKEN_FILE_VARIABLE)
    return Path(word) if word else None


def _made(folder: Path) -> Path:
    path = folder / FILE
    with suppress(OSError):
        if read(path) is not None:
            return path
    new = folder / f".{FILE}.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            new.unlink()  # of a process of the same number that was killed here
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "w") as file:
            file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
        try:
            os.link(new, path)  # whoever comes second takes the first one's
        except FileExistsError:
            pass
        finally:
            new.unlink()
    except OSError as error:
        fail(
            ExitCode.UNREACHABLE,
            f"{path} cannot be written: {error.strerror}; it would hold the token of the API, or"
            f" set {TOKEN_FILE_VARIABLE}",
        )
    note(f"lockstep: the token of the API is in {path}")
    return path
