"""Versions that no archive tells: the code's commit, the image's digest, NCCL."""

import os
import subprocess
from pathlib import Path

from lockstep.bench.results import Value

COMMIT, DIGEST, NCCL = "LOCKSTEP_COMMIT", "LOCKSTEP_IMAGE_DIGEST", "NCCL_VERSION"
"""Of the environment; they overrule what is found. NVIDIA's images set the last."""


def surroundings(beside: Path) -> dict[str, Value]:
    """Columns of COLUMNS; null = not known.

    Args:
        beside: A folder of the code that is measured.
    """
    return {
        "commit": os.environ.get(COMMIT) or commit(beside),
        "image_digest": os.environ.get(DIGEST),
        "nccl": os.environ.get(NCCL),
    }


def commit(folder: Path) -> str | None:
    """The commit of the git repository there, `-dirty` where files differ from it; None = none."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words],  # noqa: S607 - the user's own
                capture_output=True, text=True, timeout=10,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    found = git("rev-parse", "HEAD")
    if not found:
        return None
    return f"{found}-dirty" if git("status", "--porcelain", "--untracked-files=no") else found
