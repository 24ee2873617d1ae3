"""Who may see the pages: basic authentication against bcrypt hashes."""

import binascii
import hmac
import os
import threading
from base64 import b64decode
from collections.abc import Mapping

from collector.config import ConfigError

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
        scheme, _, text = (authorization or "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            credentials = b64decode(text.strip(), validate=True)
        except (binascii.Error, ValueError):
            return False
        user, colon, password = credentials.partition(b":")
        if not colon:
            return False
        digest = hmac.digest(self._key, credentials, "sha256")
        if not self._known(digest):
            # One at a time: guessing passwords must not take more than one core.
            with self._checking:
                if not self._known(digest):  # several may have waited with the same word
                    _remember(
                        self._right if self._verified(user, password) else self._wrong, digest
                    )
        return digest in self._right

    def _known(self, digest: bytes) -> bool:
        return digest in self._right or digest in self._wrong

    def _verified(self, user: bytes, password: bytes) -> bool:
        hashed = self._users.get(user)
        try:
            right = self._check(password, hashed or self._decoy)
        except ValueError:  # longer than bcrypt's 72 bytes, or with a zero byte: nobody's password
            return False
        return right and hashed is not None


def _remember(words: dict[bytes, None], digest: bytes) -> None:
    """Add a word; the oldest gives way."""
    words[digest] = None
    while len(words) > MAX_REMEMBERED:
        del words[next(iter(words))]


def _cost(hashed: bytes) -> int:
    """Rounds of a bcrypt hash as a power of two: the 12 of $2b$12$..."""
    return int(hashed.split(b"$")[2])
