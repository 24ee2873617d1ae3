"""The state folder: what outlives a restart of the collector, in one JSON file."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.collector.config import ConfigError
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.files.opening import read_bytes
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples.counters import Counter, Key, after_reboot

FILE = "counters.json"
SCHEMA_VERSION = 2
"""Version 1 did not say which boot it was of, and is not taken over."""
LIMIT = 16 << 20
BOOT_ID = "sys/kernel/random/boot_id"


class StateFile:
    """Counters by feed, written whole or not at all.

    Args:
        folder: Where the file lies.
        proc: A procfs: it tells this boot from the one before.

    Raises:
        ConfigError: The folder cannot be made or written to.
    """

    def __init__(self, folder: Path, proc: Path) -> None:
        self.path = folder / FILE
        self._boot = _boot_id(proc)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"state_dir {folder} cannot be made: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"state_dir {folder} is not writable for user {os.geteuid()}")

    def load(self) -> dict[str, dict[Key, Counter]]:
        """What was saved, ready to go on from in this boot; nothing before the first save.

        Raises:
            SourceError: The file is there and cannot be read or is not ours; or it is not the last
                word of a boot that has ended, and what it lacks would be counted twice.
        """
        tree = self._tree()
        if tree is None:
            return {}
        try:
            feeds = {
                str(feed): dict(_entry(*row) for row in rows)
                for feed, rows in tree["counters"].items()
            }
            same_boot = self._boot is not None and tree["boot_id"] == self._boot
            last_word = self._boot is not None and tree["last_word"] is True
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SourceError("content", f"{self.path} is not a state file: {error!r}") from error
        if same_boot:
            return feeds
        if not last_word:
            raise SourceError(
                "other_boot", f"{self.path} is of a boot whose last counts are unknown"
            )
        return {feed: after_reboot(kept) for feed, kept in feeds.items()}

    def memories(self) -> dict[str, Any]:
        """What sources noted in this boot for a restart, by source; nothing of another boot.

        Raises:
            SourceError: The file is there and cannot be read or is not ours.
        """
        tree = self._tree() or {}
        noted = tree.get("memories")
        same_boot = self._boot is not None and tree.get("boot_id") == self._boot
        return noted if same_boot and isinstance(noted, dict) else {}

    def save(
        self,
        feeds: Mapping[str, Mapping[Key, Counter]],
        memories: Mapping[str, Any] | None = None,
        *,
        last_word: bool = False,
    ) -> None:
        """Replace the file.

        Args:
            feeds: Counters by feed.
            memories: JSON values by source.
            last_word: Nothing is exported after this. A total that misses what was exported since
                would fall at the next boot, and Prometheus would count all of it again.

        Raises:
            OSError: It cannot be written; the file of before stands.
        """
        tree = {
            "schema_version": SCHEMA_VERSION,
            "boot_id": self._boot,
            "last_word": last_word,
            "counters": {
                feed: [[name, labels, *counter] for (name, labels), counter in counters.items()]
                for feed, counters in feeds.items()
                if counters
            },
            "memories": dict(memories or {}),
        }
        # Not json.dump, which goes through the tree in Python.
        write_whole(self.path, json.dumps(tree, separators=(",", ":")), mode=None, sync=True)

    def _tree(self) -> dict[str, Any] | None:
        """The file as JSON, or None before the first save."""
        try:
            tree = bounded_json.loads(read_bytes(self.path, LIMIT))
            if tree["schema_version"] != SCHEMA_VERSION:
                raise ValueError(f"schema_version is not {SCHEMA_VERSION}")
        except SourceError as error:
            if error.reason == "missing":
                return None
            raise
        except (ValueError, TypeError, KeyError) as error:
            raise SourceError("content", f"{self.path} is not a state file: {error!r}") from error
        return tree  # type: ignore[no-any-return]  # subscripting by text has shown it is a dict


def _boot_id(proc: Path) -> str | None:
    """The kernel's name of this boot, or None where it tells none: then no boot is the same."""
    try:
        return read_bytes(proc / BOOT_ID, 64).decode("ascii", "replace").strip() or None
    except SourceError:
        return None


def _entry(name: str, labels: list[str], raw: float, offset: float) -> tuple[Key, Counter]:
    if not all(isinstance(text, str) for text in (name, *labels)):
        raise ValueError(f"{name} has a label that is not text")
    if not (math.isfinite(raw) and math.isfinite(offset) and min(raw, offset) >= 0):
        raise ValueError(f"{name} is not a count")
    return (name, tuple(labels)), Counter(raw, offset)
