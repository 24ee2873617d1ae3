"""`python -m lockstep.collector.cleaner`: removes what ended pods left of their rings.

The kubelet makes a folder a pod there, as root, and nobody removes it; rings of killed pods stay
in it. The collector sees that folder read-only, so this is a process of its own, with a right to
that one folder and to nothing else: root without any capability, which owns the folders.

By age alone, because no other right is needed for that: a folder goes when nothing in it has
changed for so long, and no ring in it has had a heartbeat.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from lockstep.collector.clock import Clock, SystemClock
from lockstep.collector.config import ConfigError, seconds
from lockstep.collector.contract import ring
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.files.opening import MAX_ENTRIES
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.header import AHEAD_NS, check_size, read_header

AGE = "24h"
"""Longer than any pod waits for its ranks, and than anybody waits with a look at a dead run."""
LEAST_SECONDS = 900.0
"""A gone rank stays on the page for 600 s, as evidence (contract of lockstep_rank_up)."""
EVERY_SECONDS = 300.0
MAX_FOLDERS = 256
"""Removed at a look: the node is not to be kept busy by what nobody misses."""


def outlived(folder: Path, age: float, clock: Clock) -> bool:
    """Whether nothing in a pod's folder has changed, or had a heartbeat, for so many seconds.

    What cannot be read, or is too much to look at, is taken as changed.
    """
    until = clock.wall() - age
    try:
        if folder.lstat().st_mtime > until:
            return False
        for at, path in enumerate(_below(folder)):
            if at >= MAX_ENTRIES or path.lstat().st_mtime > until:
                return False
            if (
                path.suffix == ring.FILE_SUFFIX
                and not path.is_symlink()
                and _beats(path, age, clock)
            ):
                return False
    except OSError:
        return False
    return True


def _below(folder: Path) -> Iterator[Path]:
    """All that is in a folder and in those below it; no link is followed.

    Raises:
        OSError: One of them cannot be looked into (`Path.rglob` would pass over it).
    """

    def refused(error: OSError) -> NoReturn:
        raise error

    for parent, folders, files in os.walk(folder, onerror=refused):
        for name in (*folders, *files):
            yield Path(parent, name)


def _beats(path: Path, age: float, clock: Clock) -> bool:
    """Whether a ring had a heartbeat: writes through a mapping leave a file's time as it was."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        check_size(descriptor)
        since = clock.monotonic() - read_header(descriptor, clock).heartbeat_ns / 1e9
        return -AHEAD_NS / 1e9 <= since < age  # one of the future is a lie, or of another boot
    except SourceError:
        return False  # not a ring, or torn: its age is the file's
    finally:
        os.close(descriptor)


def clean(folder: Path, age: float, clock: Clock) -> list[str]:
    """Remove the folders of pods that are outlived; their names.

    Only folders, and only those directly below: files there are not pods', and links are not ours.
    """
    gone: list[str] = []
    with os.scandir(folder) as entries:
        names = [
            entry.name for at, entry in enumerate(entries)
            if at < MAX_ENTRIES and entry.is_dir(follow_symlinks=False)
        ]  # fmt: skip
    for name in sorted(names):
        if len(gone) >= MAX_FOLDERS:
            break
        if outlived(folder / name, age, clock):
            # rmtree refuses links, and follows none inside (avoids_symlink_attacks).
            shutil.rmtree(folder / name, ignore_errors=True)
            if not (folder / name).exists():
                gone.append(name)
    return gone


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(ExitCode.USAGE, f"lockstep: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    """Look every five minutes until told to end."""
    parser = _Parser(prog="python -m lockstep.collector.cleaner", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path, help="the node's folder of rings")
    parser.add_argument("--age", metavar="TIME", default=AGE, help=f"at least 15m ({AGE})")
    parser.add_argument("--once", action="store_true", help="look once, and end")
    given = parser.parse_args(arguments)
    try:
        age = seconds("--age", given.age)
    except ConfigError as error:
        parser.error(str(error))
    if age < LEAST_SECONDS:
        parser.error(
            f"--age is {given.age}; it must be at least 15m: until then a gone rank is shown"
        )
    if not given.once:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    clock = SystemClock()
    while True:
        try:
            for name in clean(given.folder, age, clock):
                print(f"removed {name}: unchanged for {given.age}", flush=True)  # noqa: T201
        except OSError as error:
            print(f"lockstep: {given.folder}: {error.strerror}", file=sys.stderr)  # noqa: T201
            if given.once:
                return ExitCode.UNREACHABLE
        if given.once:
            return ExitCode.OK
        time.sleep(EVERY_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
