"""A run archive (docs/reference/archive.md): its columns and windows, or all of it as a Run."""
