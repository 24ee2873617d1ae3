"""A server a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Any]:
    from tests.bench.api.served import served

    with served(tmp_path / "runs") as made:
        yield made
