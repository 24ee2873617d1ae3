"""Who may see the pages: basic authentication against bcrypt hashes."""

import binascii
import hmac
import os
import threading
from base64 import b64decode
from collections.abc import Mapping

from collector.config import ConfigError

MAX_REMEMBERED = 100
"""Answers remembered, right and wrong ones; a bcrypt check takes some 50 ms of a core."""


class Guard:
    """Checks Authorization headers; for many threads.

    Every check costs the same, whether the user exists or not. Credentials are remembered only as
    a keyed digest whose key never leaves this process.

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
        self._decoy = next(iter(self._users.values()))
        self._key = os.urandom(32)
        self._remembered: dict[bytes, bool] = {}
        self._lock = threading.Lock()

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
        known = self._remembered.get(digest)
        if known is None:
            # One at a time: guessing passwords must not take more than one core.
            with self._lock:
                known = self._verified(user, password)
                self._remembered[digest] = known
                while len(self._remembered) > MAX_REMEMBERED:
                    del self._remembered[next(iter(self._remembered))]
        return known

    def _verified(self, user: bytes, password: bytes) -> bool:
        hashed = self._users.get(user)
        try:
            right = self._check(password, hashed or self._decoy)
        except ValueError:  # longer than bcrypt's 72 bytes, or with a zero byte: nobody's password
            return False
        return right and hashed is not None
