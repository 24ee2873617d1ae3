"""Tar archives that tests keep or make."""

import tarfile
from pathlib import Path


def unpacked(packed: Path, folder: Path) -> Path:
    """The folder, with the files of a tar archive in it."""
    with tarfile.open(packed) as tar:
        # Python 3.11.2, which is Debian 12's, has no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(folder)
    return folder
