"""What stands before every page: TLS and users, as the web config file has them now."""

import logging
import socket
import ssl
import threading
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.config import ConfigError
from lockstep.collector.exporter.guard import Guard
from lockstep.collector.exporter.tls import tls_context
from lockstep.collector.exporter.web_config import TlsConfig, load_web_config

LOG = logging.getLogger(__name__)

_Stamp = tuple[int, int, int] | None
"""Which file it is, its size and when it was written; None for one that is not there."""


class _Loaded(NamedTuple):
    """What the files said, and which files as of when."""

    tls: ssl.SSLContext | None = None
    guard: Guard | None = None
    files: tuple[Path, ...] = ()
    stamps: tuple[_Stamp, ...] = ()


class WebAuth:
    """TLS and users by a web config file, or none; for many threads.

    The files are looked at with each connection and each request, as in the exporter toolkit, so
    that renewed certificates and users count at once. Files that turn out wrong are told once, and
    what they said before still holds. TLS does not come or go without a restart, and the users do
    not all go: a file that is being written may look empty.

    Args:
        file: The web config file.
        tls: What stands in its place where a command has flags for it; it is read once.

    Raises:
        ConfigError: The file is wrong at the start, or a certificate that it names.
    """

    def __init__(self, file: Path | None = None, tls: TlsConfig | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        if file is not None:
            self._loaded = _load(file)
        else:
            self._loaded = _Loaded(None if tls is None else tls_context(tls))

    @property
    def scheme(self) -> str:
        """How the address of the pages begins."""
        return "http" if self._loaded.tls is None else "https"

    def wrap(self, connection: socket.socket) -> socket.socket:
        """The connection before its handshake, behind TLS if there is any.

        Raises:
            OSError: The client has gone; the connection is closed.
        """
        tls = self._now().tls
        if tls is None:
            return connection
        return tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def shake_hands(self, connection: socket.socket) -> None:
        """The handshake, all of it within the connection's time-out.

        Raises:
            OSError: It failed.
        """
        if isinstance(connection, ssl.SSLSocket):
            connection.do_handshake()

    def knows(self, authorization: str | None) -> bool | None:
        """As `allows` where that takes no time; None if a password would have to be checked."""
        guard = self._now().guard
        return True if guard is None else guard.knows(authorization)

    def allows(self, authorization: str | None) -> bool:
        """Whether the Authorization header of a request may see the pages."""
        guard = self._now().guard
        return guard is None or guard.allows(authorization)

    def _now(self) -> _Loaded:
        if self._file is None or self._loaded.stamps == _stamps(self._loaded.files):
            return self._loaded
        with self._lock:
            before = self._loaded
            # Taken before reading: what is written meanwhile shows as another change.
            stamps = _stamps(before.files)
            if stamps != before.stamps:
                try:
                    self._loaded = _not_less(self._file, before, _load(self._file))
                except ConfigError as error:
                    LOG.warning("%s; what held before still holds", error)
                    self._loaded = before._replace(stamps=stamps)
            return self._loaded


def _load(file: Path) -> _Loaded:
    stamp = _stamps((file,))
    web = load_web_config(file)
    certificates = () if web.tls is None else web.tls.files
    stamps = stamp + _stamps(certificates)
    return _Loaded(
        None if web.tls is None else tls_context(web.tls),
        Guard(web.users) if web.users else None,
        (file, *certificates),
        stamps,
    )


def _not_less(file: Path, before: _Loaded, now: _Loaded) -> _Loaded:
    if (before.tls is None) != (now.tls is None):
        raise ConfigError(f"{file}: TLS comes and goes with a restart only")
    if before.guard is not None and now.guard is None:
        raise ConfigError(f"{file}: it has no users any more, which takes a restart")
    return now


def _stamps(files: tuple[Path, ...]) -> tuple[_Stamp, ...]:
    return tuple(map(_stamp, files))


def _stamp(file: Path) -> _Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
