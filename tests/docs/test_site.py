"""The site builds, and no link in it is dead."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MKDOCS = shutil.which("mkdocs") or shutil.which("mkdocs", path=ROOT / ".venv-docs" / "bin")


@pytest.mark.slow
@pytest.mark.skipif(MKDOCS is None, reason="needs mkdocs: make docs installs it")
def test_the_site_builds_with_every_link_alive(tmp_path: Path) -> None:
    assert MKDOCS is not None
    built = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert built.returncode == 0, built.stderr
    assert (tmp_path / "runbooks" / "LockstepFinding.html").exists()
