"""What stands before every page: TLS and users, as the web config file has them now."""

import binascii
import hmac
import logging
import os
import socket
import ssl
import threading
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lockstep.collector.config import ConfigError
from lockstep.collector.exporter.web_config import TlsConfig, load_web_config

# Who may see the pages: basic authentication against bcrypt hashes.

MAX_REMEMBERED = 100
"""Right and wrong words remembered, each; a bcrypt check takes some 50 ms of a core."""


class Guard:
    """Checks Authorization headers; for many threads.

    An unknown user costs as much as the one whose check takes longest. Credentials are remembered
    only as a keyed digest whose key never leaves this process; wrong ones never push out right
    ones, so that who was let in once does not wait behind those who guess.

    Raises:
        ConfigError: bcrypt is not installed.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        try:
            import bcrypt
        except ImportError as error:
            raise ConfigError("basic_auth_users needs bcrypt: pip install bcrypt") from error
        self._check = bcrypt.checkpw
        self._users = {name.encode(): hashed.encode() for name, hashed in users.items()}
        self._decoy = max(self._users.values(), key=_cost)
        self._key = os.urandom(32)
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._checking = threading.Lock()

    def allows(self, authorization: str | None) -> bool:
        """Whether the header names a user with the right password."""
        credentials = _credentials(authorization)
        if credentials is None:
            return False
        digest = self._digest(credentials)
        if self._known(digest) is None:
            # One at a time: guessing passwords must not take more than one core.
            with self._checking:
                if self._known(digest) is None:  # several may have waited with the same word
                    right = self._verified(*credentials)
                    _remember(self._right if right else self._wrong, digest)
        return digest in self._right

    def knows(self, authorization: str | None) -> bool | None:
        """As `allows` of words that were checked already or are none; None of others."""
        credentials = _credentials(authorization)
        return False if credentials is None else self._known(self._digest(credentials))

    def _digest(self, credentials: tuple[bytes, bytes]) -> bytes:
        return hmac.digest(self._key, b":".join(credentials), "sha256")

    def _known(self, digest: bytes) -> bool | None:
        return True if digest in self._right else False if digest in self._wrong else None

    def _verified(self, user: bytes, password: bytes) -> bool:
        hashed = self._users.get(user)
        try:
            right = self._check(password, hashed or self._decoy)
        except ValueError:  # longer than bcrypt's 72 bytes, or with a zero byte: nobody's password
            return False
        return right and hashed is not None


def _credentials(authorization: str | None) -> tuple[bytes, bytes] | None:
    """(user, password) of a header for basic authentication; None of any other."""
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = b64decode(text.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return (user, password) if colon else None


def _remember(words: dict[bytes, None], digest: bytes) -> None:
    """Add a word; the oldest gives way."""
    words[digest] = None
    while len(words) > MAX_REMEMBERED:
        del words[next(iter(words))]


def _cost(hashed: bytes) -> int:
    """Rounds of a bcrypt hash as a power of two: the 12 of $2b$12$..."""
    return int(hashed.split(b"$")[2])


# TLS of the server: its certificate and what it asks of clients.

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """What connections are wrapped with.

    Raises:
        ConfigError: A certificate or key cannot be read; the message names the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.verify_mode = _CLIENTS[config.client_auth_type]
    for path in config.files:
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read the certificate file {path}: {error.strerror}"
            ) from error
    try:
        # The empty password: OpenSSL would otherwise ask for one on the terminal.
        context.load_cert_chain(config.cert_file, config.key_file, password="")
    except OSError as error:
        raise ConfigError(
            f"{config.cert_file} and {config.key_file} are not a certificate and its key"
            f" in PEM: {error.strerror or error}"
        ) from error
    if config.client_ca_file is not None:
        try:
            context.load_verify_locations(config.client_ca_file)
        except OSError as error:
            raise ConfigError(
                f"{config.client_ca_file} holds no certificates in PEM: {error.strerror or error}"
            ) from error
    return context


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
    that renewed certificates and users count at once. Files that turn out wrong are logged once,
    and what they said before still holds. TLS does not come or go without a restart, and the users
    do not all go: a file that is being written may look empty.

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
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
