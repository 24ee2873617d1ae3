"""Who may see the pages: basic authentication against bcrypt hashes."""

import binascii
import hmac
import os
import threading
from base64 import b64decode
from collections.abc import Mapping

from lockstep.collector.config import ConfigError

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
