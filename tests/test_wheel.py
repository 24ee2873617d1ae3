"""What people install: the wheel in clean environments, outside the tree."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import PARTS

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.distributed, pytest.mark.slow]
PROGRAM = """
import analyzer, collector, dashboard, grafana, workloads
import lockstep
recorder = lockstep.recorder()
for _ in recorder.steps(range(3)):
    with recorder.phase("forward"):
        pass
assert analyzer.MINE == collector.MINE == dashboard.MINE == grafana.MINE == workloads.MINE == 1
print(recorder.active)
"""


def run(*words: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, without what this process's environment says of Python."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env=outside | environment, capture_output=True,
        text=True, timeout=900, check=False,
    )  # fmt: skip


def installed(folder: Path, *words: object) -> Path:
    """The programs of a new environment that has this."""
    run(sys.executable, "-m", "uv", "venv", "--python", sys.executable, folder, cwd=folder.parent)
    done = run(
        sys.executable, "-m", "uv", "pip", "install", "--python", folder / "bin" / "python",
        "--constraints", ROOT / "constraints.txt", *words, cwd=folder.parent,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-2000:]
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        sys.executable, "-m", "uv", "build", "--wheel", "--quiet", "--out-dir", folder, ROOT,
        cwd=folder,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr[-2000:]
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory) -> Path:
    """With nothing but the wheel."""
    return installed(tmp_path_factory.mktemp("bare") / "venv", "--no-index", "--no-deps", wheel)


@pytest.fixture(scope="module")
def complete(wheel, tmp_path_factory) -> Path:
    """With all that a demo, a node and the analysis of a cluster import."""
    extras = f"lockstep-monitor[demo,collector,analyzer] @ {wheel.as_uri()}"
    return installed(tmp_path_factory.mktemp("complete") / "venv", extras)


def test_a_wheel_has_one_import_name_and_all_that_is_no_code(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    rooms = {name.split("/")[1] for name in names}
    files = {
        f"lockstep/{path.relative_to(ROOT)}"
        for part in PARTS for path in (ROOT / part).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }  # fmt: skip
    runbooks = {f"lockstep/runbooks/{path.name}" for path in ROOT.glob("deploy/runbooks/*.md")}

    assert {"lockstep"} == {name.split("/")[0] for name in names}
    assert rooms >= set(PARTS)
    assert set() == (files | runbooks) - names


def test_a_program_is_recorded_beside_files_called_as_our_parts_and_without_any_dependency(
    bare, tmp_path
):
    for name in PARTS:
        (tmp_path / f"{name}.py").write_text("MINE = 1\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run(bare / "python", "train.py", cwd=tmp_path, LOCKSTEP_DIR=str(tmp_path / "rings"))

    assert ("True\n", "") == (done.stdout, done.stderr)
    assert ["rank-0.ring"] == [path.name for path in (tmp_path / "rings").rglob("*.ring")]


def test_without_its_dependencies_the_command_line_says_what_to_install(bare, tmp_path):
    done = run(bare / "lockstep", "analyze", "runs", cwd=tmp_path)

    assert (69, "") == (done.returncode, done.stdout)
    assert 1 == done.stderr.count("\n")
    assert "pip install 'lockstep-monitor[cli]'" in done.stderr


def test_the_demo_finds_its_straggler_with_what_its_extra_brings(wheel, tmp_path):
    demo = installed(tmp_path / "venv", f"lockstep-monitor[demo] @ {wheel.as_uri()}")
    done = run(demo / "lockstep", "demo", cwd=tmp_path)

    assert 0 == done.returncode, done.stderr[-2000:]
    assert list(tmp_path.glob("runs/*/report.html"))


def test_rules_and_grafanas_dashboards_are_those_of_the_tree(complete, tmp_path):
    done = run(complete / "lockstep", "rules", "--out", tmp_path / "rules", cwd=tmp_path)
    there = run(
        complete / "python", "-c",
        "from importlib.resources import files; print(files('lockstep.grafana') / 'json')",
        cwd=tmp_path,
    ).stdout.strip()  # fmt: skip

    assert 0 == done.returncode, done.stderr[-2000:]
    for made in (tmp_path / "rules").iterdir():
        assert (ROOT / "deploy" / "rules" / made.name).read_text() == made.read_text()
    for path in (ROOT / "grafana" / "json").iterdir():
        assert path.read_text() == (Path(there) / path.name).read_text()


@pytest.mark.parametrize("part", ["lockstep.collector", "lockstep.workloads"])
def test_parts_are_programs_of_the_environment(complete, tmp_path, part):
    done = run(complete / "python", "-m", part, "--help", cwd=tmp_path)

    assert 0 == done.returncode, done.stderr[-2000:]
