"""One run archive (docs/reference/archive.md) as a Source."""

from lockstep.dashboard.sources.archive.findings import newest_first
from lockstep.dashboard.sources.archive.row import unreadable
from lockstep.dashboard.sources.archive.source import WALL, ArchiveSource

__all__ = ["WALL", "ArchiveSource", "newest_first", "unreadable"]
