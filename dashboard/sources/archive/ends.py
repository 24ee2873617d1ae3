"""Whether a Parquet file is whole at its end, which is written last."""

from pathlib import Path

MAGIC = b"PAR1"
"""First and last four bytes. SOURCE: Parquet format, "File format"."""
LEAST_BYTES = 12
"""Both and the length of the footer."""


def is_cut(path: Path) -> bool:
    """Whether the file was cut off while it was written; one that cannot be opened is not told."""
    try:
        with path.open("rb", buffering=0) as file:
            if file.seek(0, 2) < LEAST_BYTES:
                return True
            file.seek(-len(MAGIC), 2)
            return file.read(len(MAGIC)) != MAGIC
    except OSError:
        return False
