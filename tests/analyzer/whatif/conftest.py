"""Traces to analyze: the published one where it lies beside the repository, and made-up ones."""

from pathlib import Path

import pytest

from lockstep.analyzer.read.optrace.load import load_trace, read_meta

PUBLISHED = "shared/data/bytedance"


@pytest.fixture(scope="session")
def published_folder() -> Path:
    """The folder of trace AR and its published results."""
    for above in Path(__file__).resolve().parents:
        if (found := above / PUBLISHED).is_dir():
            return found
    pytest.skip(f"no {PUBLISHED} beside the repository")


@pytest.fixture(scope="session")
def published_trace(published_folder):
    layout = read_meta(published_folder / "meta-AR.yaml")
    return load_trace(published_folder / "trace-AR.parquet", layout)
