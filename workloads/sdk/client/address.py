"""Where the API is, and with which token: from arguments, else from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

URL_VARIABLE = "LOCKSTEP_API_URL"
TOKEN_VARIABLE = "LOCKSTEP_API_TOKEN"  # noqa: S105 - a name, not a secret
TOKEN_FILE_VARIABLE = "LOCKSTEP_API_TOKEN_FILE"  # noqa: S105 - likewise
PORT = 9412
USUAL_URL = f"http://127.0.0.1:{PORT}"
PREFIX = "/api/v1"
MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """An API.

    Attributes:
        url: Without a slash at its end.
        token: Never shown.
    """

    url: str
    token: str = field(repr=False)

    @property
    def may_be_proxied(self) -> bool:
        """Whether a proxy of the environment may stand between; none that would read the token."""
        host = urlsplit(self.url).hostname or ""
        try:
            here = ip_address(host).is_loopback
        except ValueError:
            here = host == "localhost"
        return self.url.startswith("https://") and not here


def place(
    url: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Place:
    """The API that is meant.

    Args:
        url: By default LOCKSTEP_API_URL, else this machine's.
        token: By default LOCKSTEP_API_TOKEN, or what is in the file.
        token_file: By default LOCKSTEP_API_TOKEN_FILE.
        environment: Instead of the process's own.

    Raises:
        ValueError: The address is none, or no token is known; it says how to give one.
        OSError: The file cannot be read.
    """
    told = os.environ if environment is None else environment
    where = (url or told.get(URL_VARIABLE) or USUAL_URL).rstrip("/")
    if not where.startswith(("http://", "https://")) or "@" in where:
        raise ValueError(
            f"{where.rpartition('@')[2]!r} is no address of an API; it must be http://HOST:PORT or"
            " https://HOST:PORT, without a name or password"
        )
    file = token_file or (None if token else told.get(TOKEN_FILE_VARIABLE))
    if token is None and file:
        with open(file, "rb") as stream:
            token = stream.read(MAX_BYTES).decode("utf-8", "replace").strip()
    word = (token or told.get(TOKEN_VARIABLE) or "").strip()
    if not word or not word.isascii() or not word.isprintable():
        raise ValueError(
            f"the API needs a token: give token_file, or set {TOKEN_FILE_VARIABLE} or"
            f" {TOKEN_VARIABLE}; `lockstep api` says on its start where it lies"
        )
    return Place(where, word)
