"""One run archive (docs/reference/archive.md) as a Source."""

from dashboard.sources.archive.findings import newest_first
from dashboard.sources.archive.row import unreadable
from dashboard.sources.archive.source import WALL, ArchiveSource

__all__ = ["WALL", "ArchiveSource", "newest_first", "unreadable"]
