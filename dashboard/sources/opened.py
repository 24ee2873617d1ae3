"""The source that the command names, opened once for all sessions."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.dashboard.sources.cache import Cached, cached, newest_change
from lockstep.dashboard.trouble import Kind, TroubleError

SOURCE = "LOCKSTEP_DASHBOARD_SOURCE"
"""Environment variable: JSON, `{"kind": "archive|folder|prometheus", ...}`."""
NO_SOURCE = "Start it with one: lockstep dashboard DIR, or lockstep dashboard --prometheus URL"

_OPEN: dict[str, Cached] = {}
_LOCK = threading.Lock()


def opened(environment: Mapping[str, str] | None = None) -> Cached:
    """The source of this process, the same one for all sessions.

    Args:
        environment: Holds SOURCE, and the credentials; None = the process'.

    Raises:
        TroubleError: None is named, or it cannot be opened.
    """
    environment = os.environ if environment is None else environment
    text = environment.get(SOURCE, "")
    with _LOCK:
        if text not in _OPEN:
            _OPEN[text] = _open(text, environment)
        return _OPEN[text]


def _open(text: str, environment: Mapping[str, str]) -> Cached:
    try:
        settings = bounded_json.loads(text) if text else {}
        kind = str(settings.get("kind", ""))
    except (ValueError, AttributeError) as error:
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} is no JSON object that names a source.", NO_SOURCE
        ) from error
    if kind == "":
        raise TroubleError(Kind.NO_SOURCE, "The dashboard was started without a source.", NO_SOURCE)
    if kind not in _OPENERS:
        known = ", ".join(_OPENERS)
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} names the kind {kind!r}; it must be one of {known}.",
            NO_SOURCE,
        )  # fmt: skip
    try:
        return _OPENERS[kind](settings, environment)
    except (KeyError, TypeError, ValueError) as error:
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} does not say what a source of kind {kind} needs.", NO_SOURCE
        ) from error


def _archive(settings: Mapping[str, Any], _: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.archive.source import ArchiveSource

    path = Path(settings["path"])
    return cached(ArchiveSource(path), stamp=lambda: newest_change(path))


def _folder(settings: Mapping[str, Any], _: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.folder import FolderSource

    path = Path(settings["path"])
    return cached(FolderSource(path), stamp=lambda: newest_change(path))


def _prometheus(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.prometheus.source import PrometheusSource

    findings = settings.get("findings")
    where = Path(findings) if findings else None
    return cached(PrometheusSource(str(settings["url"]), where, environment))


_OPENERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], Cached]] = {
    "archive": _archive,
    "folder": _folder,
    "prometheus": _prometheus,
}
