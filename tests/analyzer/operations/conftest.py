"""The published trace, where it lies beside the repository."""

from pathlib import Path

import pytest

from lockstep.analyzer.read.optrace.load import load_trace, read_meta
from tests.analyzer.edited import healed

PUBLISHED = "shared/data/bytedance"


@pytest.fixture(scope="session")
def published_folder() -> Path:
    """The folder of trace AR and its published results."""
    for above in Path(__file__).resolve().parents:
        if (folder := above / PUBLISHED).is_dir():
            return folder
    pytest.skip(f"no {PUBLISHED} beside the repository")


@pytest.fixture(scope="session")
def published_trace(published_folder):
    """Trace AR: 16 workers, dp 0 stage 0 slow in every step."""
    layout = read_meta(published_folder / "meta-AR.yaml")
    return load_trace(published_folder / "trace-AR.parquet", layout)


@pytest.fixture(scope="session")
def healthy_published(published_trace):
    """The same with its slow worker as fast as a peer."""
    return healed(published_trace)
