"""The published trace, where it lies beside the repository."""

from pathlib import Path

import pytest

from lockstep.analyzer.read.optrace.load import load_trace, read_meta
from tests.analyzer.edited import healed

PUBLISHED = "shared/data/bytedance"


@pytest.fixture(scope="session")
def published():
    """Trace AR: 16 workers, dp 0 stage 0 slow in every step."""
    for above in Path(__file__).resolve().parents:
        if (folder := above / PUBLISHED).is_dir():
            layout = read_meta(folder / "meta-AR.yaml")
            return load_trace(folder / "trace-AR.parquet", layout)
    pytest.skip(f"no {PUBLISHED} beside the repository")


@pytest.fixture(scope="session")
def healthy_published(published):
    """The same with its slow worker as fast as a peer."""
    return healed(published)
