"""The state folder: what outlives a restart of the collector, in one JSON file."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

from collector.config import ConfigError
from collector.counters import Counter, Key
from collector.files import read_bytes
from collector.reading import SourceError

FILE = "counters.json"
SCHEMA_VERSION = 1
LIMIT = 16 << 20


class StateFile:
    """Counters by feed, written whole or not at all.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"state_dir {folder} cannot be made: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"state_dir {folder} is not writable for user {os.geteuid()}")

    def load(self) -> dict[str, dict[Key, Counter]]:
        """What was saved; nothing before the first save.

        Raises:
            SourceError: The file is there and cannot be read or is not ours.
        """
        try:
            raw = read_bytes(self.path, LIMIT)
        except SourceError as error:
            if error.reason == "missing":
                return {}
            raise
        try:
            tree = json.loads(raw)
            if tree["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"schema_version is not {SCHEMA_VERSION}")
            return {
                str(feed): dict(_entry(*row) for row in rows)
                for feed, rows in tree["counters"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SourceError("content", f"{self.path} is not a state file: {error!r}") from error

    def save(self, feeds: Mapping[str, Mapping[Key, Counter]]) -> None:
        """Replace the file.

        Raises:
            OSError: It cannot be written; the file of before stands.
        """
        tree = {
            "schema_version": SCHEMA_VERSION,
            "counters": {
                feed: [[name, labels, *counter] for (name, labels), counter in counters.items()]
                for feed, counters in feeds.items()
                if counters
            },
        }
        temporary = self.path.with_name(f".{FILE}.new")
        with temporary.open("w") as stream:
            json.dump(tree, stream, separators=(",", ":"))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self.path)


def _entry(name: str, labels: list[str], raw: float, offset: float) -> tuple[Key, Counter]:
    if not all(isinstance(text, str) for text in (name, *labels)):
        raise ValueError(f"{name} has a label that is not text")
    if not (math.isfinite(raw) and math.isfinite(offset) and min(raw, offset) >= 0):
        raise ValueError(f"{name} is not a count")
    return (name, tuple(labels)), Counter(raw, offset)
