"""One run archive (docs/reference/archive.md) as a Source."""
