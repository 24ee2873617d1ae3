"""`POST /alertmanager`: who may tell us of alerts, and what becomes of what they tell."""

import hmac
import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import Message
from http import HTTPStatus
from pathlib import Path

from lockstep.analyzer.findings.alertmanager.webhook import (
    MAX_BYTES,
    Notification,
    WebhookError,
    parse,
)
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail
from lockstep.watch.serve.server import refuse_cross_origin

LOG = logging.getLogger(__name__)

TOKEN_FILE = "webhook-token"  # noqa: S105 - a name
TOKEN_MAX_BYTES = 4096
TOKEN_BYTES = 32


def ensure_token_file(folder: Path) -> Path:
    """The file with the token in a folder; written, for its owner only, if it is not there.

    Raises:
        CommandError: 69, it cannot be read, or not be written.
    """
    path = folder / TOKEN_FILE
    try:
        if read_token(path) is not None:
            return path
    except OSError as error:  # somebody else's, which he has given to an Alertmanager
        fail(ExitCode.UNREACHABLE, f"{path} cannot be read: {error.strerror}; allow it, as it"
             " holds the webhook's token, or give --webhook-token-file FILE")  # fmt: skip
    try:
        token = f"{secrets.token_urlsafe(TOKEN_BYTES)}\n"
        write_whole(path, token, mode=0o600, sync=True)  # for its owner only
    except OSError as error:
        fail(ExitCode.UNREACHABLE, f"{path} cannot be written: {error.strerror}; it would hold the"
             " token of the webhook, or give --webhook-token-file FILE")  # fmt: skip
    LOG.warning("the token that POST /alertmanager asks for is in %s", path)
    return path


def read_token(path: Path) -> bytes | None:
    """The token in a file; None where there is none: no file, or nothing in it.

    Raises:
        OSError: It cannot be read; what is in it is not known.
    """
    try:
        with path.open("rb") as file:
            return file.read(TOKEN_MAX_BYTES).strip() or None
    except FileNotFoundError:
        return None


LOG = logging.getLogger(__name__)

RESULTS = ("accepted", "malformed", "too_large", "unauthorized", "foreign", "busy")


class Webhook:
    """Takes notifications of Alertmanagers; for many threads.

    Args:
        take: Takes the alerts of a notification; False while there is no room for them.
        token_file: Holds the bearer token that whoever tells us must know, read for every request
            so that it may be renewed.

    Raises:
        CommandError: 65, the file cannot be read or is empty.
    """

    def __init__(self, take: Callable[[Notification], bool], token_file: Path) -> None:
        self._take = take
        self._token_file = token_file
        self._counts: Counter[str] = Counter()
        self._truncated = 0
        self._lock = threading.Lock()
        self._parsing = threading.Lock()
        if self._token() is None:
            fail(
                ExitCode.BAD_INPUT,
                f"--webhook-token-file {token_file} cannot be read or is empty; it must hold the"
                " token that Alertmanager sends",
            )

    def admit(self, headers: Message) -> tuple[HTTPStatus, str] | None:
        """Who is not let in, by the headers alone: status and sentence. None = the body counts."""
        told, result = refuse_cross_origin(headers), "foreign"
        if told is None and not self._allowed(headers.get("Authorization")):
            told, result = (HTTPStatus.UNAUTHORIZED, "a bearer token is needed"), "unauthorized"
        if told is not None:
            self._count(result, *told)
        return told

    def answer(self, body: bytes) -> tuple[HTTPStatus, str]:
        """Status and sentence for a request that was let in.

        Args:
            body: At most MAX_BYTES + 1 of what was sent.
        """
        # One at a time: taken apart, it needs many times its bytes.
        with self._parsing:
            status, result, sentence = self._answer(body)
        self._count(result, status, sentence)
        return status, sentence

    def samples(self) -> Iterator[Sample]:
        """What the page says about notifications."""
        with self._lock:
            for result in RESULTS:
                yield m.WEBHOOKS(self._counts[result], result)
            yield m.WEBHOOK_ALERTS_TRUNCATED(self._truncated)

    def _count(self, result: str, status: HTTPStatus, sentence: str) -> None:
        with self._lock:
            self._counts[result] += 1
        if status is not HTTPStatus.OK:
            LOG.warning("a webhook was not taken (%d): %s", status, sentence)

    def _answer(self, body: bytes) -> tuple[HTTPStatus, str, str]:
        if len(body) > MAX_BYTES:
            return (
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large",
                f"the body is larger than {MAX_BYTES} bytes; set max_alerts of the receiver",
            )  # fmt: skip
        try:
            notification = parse(body)
        except WebhookError as error:
            return HTTPStatus.BAD_REQUEST, "malformed", str(error)
        if not self._take(notification):
            # Alertmanager tries again after a 5xx: nothing is lost.
            return HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many post-mortems wait; try again"
        if notification.truncated:
            LOG.warning(
                "an Alertmanager left %d alerts out of a notification; set max_alerts of the"
                " receiver to 0", notification.truncated,
            )  # fmt: skip
            with self._lock:
                self._truncated += notification.truncated
        return HTTPStatus.OK, "accepted", f"took {len(notification.alerts)} alerts"

    def _allowed(self, authorization: str | None) -> bool:
        token = self._token()
        scheme, _, given = (authorization or "").partition(" ")
        # The comparison takes as long whatever was given.
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token or b"")
        return right and token is not None and scheme.lower() == "bearer"

    def _token(self) -> bytes | None:
        """None where nobody can know it: then nobody is let in."""
        try:
            return read_token(self._token_file)
        except OSError as error:
            LOG.error("%s cannot be read: %s", self._token_file, error.strerror)
            return None
