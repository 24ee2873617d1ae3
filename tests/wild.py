"""Where outputs that were recorded on real machines lie; they are not part of the project."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("LOCKSTEP_SHARED") or Path(__file__).parents[2] / "shared")
"""Where they lie: `data/wild`, with a source beside each and an INDEX.md of what they say."""


def wild(relative: str) -> Path:
    """A recorded file or folder; skips the test where there is none."""
    path = SHARED / "data/wild" / relative
    if not path.exists():
        pytest.skip(f"no recorded {relative} here (LOCKSTEP_SHARED, or ../shared)")
    return path
