"""Address and credentials of a Prometheus, which no message or log shows, and its errors."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit


class SourceError(Exception):
    """Prometheus cannot be reached, refuses, or does not answer as a Prometheus does."""


class RequestError(ValueError):
    """What was asked for is not there, or cannot be: the run, the span, the URL."""


class TooMuchError(SourceError):
    """Prometheus finds the answer too large or too slow: a shorter span may do."""


TOKEN = "LOCKSTEP_PROMETHEUS_TOKEN"  # noqa: S105 - the variable's name
USER = "LOCKSTEP_PROMETHEUS_USER"
PASSWORD = "LOCKSTEP_PROMETHEUS_PASSWORD"  # noqa: S105 - the variable's name
REPLICA_LABELS = "LOCKSTEP_PROMETHEUS_REPLICA_LABELS"
"""Labels that name replicas, with commas between, beside those that are called so (replicas)."""
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Access:
    """A Prometheus, or another server, and how to get in.

    Attributes:
        url: `http[s]://host[:port][/path]`, without credentials and without a last slash.
        token: Bearer token; it goes before user and password.
        user: For basic authentication.
        password: Likewise.
        replica_labels: Labels of its series that name replicas, beside those called so.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    replica_labels: tuple[str, ...] = ()


def access(
    url: str, environment: Mapping[str, str] | None = None, service: str = "prometheus"
) -> Access:
    """The address without its credentials, and these, or those of the environment.

    Args:
        url: May hold a user and a password.
        environment: Where TOKEN, USER, PASSWORD and REPLICA_LABELS stand; None = this process's.
        service: What is asked, in place of `prometheus` in the option and in those names.

    Raises:
        RequestError: This is no address of such a service, or REPLICA_LABELS has what no label is.
    """
    token_name, user_name, password_name = (
        name.replace("PROMETHEUS", service.upper()) for name in (TOKEN, USER, PASSWORD)
    )
    environment = os.environ if environment is None else environment
    labels = [each.strip() for each in environment.get(REPLICA_LABELS, "").split(",")]
    if wrong := [each for each in labels if each and not _LABEL.fullmatch(each)]:
        raise RequestError(
            f"{REPLICA_LABELS} has {wrong[0]!r}, which is no label;"
            " write names with commas between, as in replica,ha_member"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        shown = url.rpartition("@")[2]
        raise RequestError(
            f"--{service} {shown} is no address; it must be http://HOST:PORT or https://HOST"
        )
    name = f"[{host}]" if ":" in host else host
    place = name if port is None else f"{name}:{port}"
    user = environment.get(user_name) or None
    password = environment.get(password_name)
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
    token = (environment.get(token_name) or "").strip() or None
    if any(not text.isprintable() for text in (token, user, password) if text):
        raise RequestError(
            f"{token_name}, {user_name} or {password_name} has a character that no header can hold"
        )
    return Access(
        url=urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")),
        token=token,
        user=user,
        password=password,
        replica_labels=tuple(filter(None, labels)),
    )
