"""Archives that every test of the dashboard may read and none may change."""

from pathlib import Path

import pytest

from tests.dashboard.archives import Made, write


@pytest.fixture(scope="session")
def straggling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rank 2 of 4 (node-1, GPU 0) is too hot from step 40 on; an XID 94 at rank 1, step 60."""
    made = Made(slow=2, xid=(1, 60, 94), flap=(0, 20.0))
    return write(tmp_path_factory.mktemp("straggling") / made.name, made)


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing is wrong, and the verdict says so."""
    made = Made(seed=1)
    return write(tmp_path_factory.mktemp("healthy") / made.name, made)


@pytest.fixture(scope="session")
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without an end, without GPUs, without operations; nobody analyzed it."""
    made = Made(seed=2, ended=False, gpus=False, ops=False, verdict=False, parts=5)
    return write(tmp_path_factory.mktemp("going") / made.name, made)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, and one whose run.json is torn."""
    folder = tmp_path_factory.mktemp("runs")
    for made in (Made(slow=2), Made(seed=1, start=1_795_010_000.0)):
        write(folder / made.name, made)
    torn = write(folder / "torn", Made(seed=3))
    (torn / "run.json").write_text('{"schema_version": 1, "ru')
    return folder
