"""The Dockerfiles, as far as they can be judged without building them (tests/cluster/pods does)."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lockstep.app import build
from tests.deploy import locks
from tests.deploy.chart.chart import CHART, objects, pods, values_files

ROOT = CHART.parents[1]
IMAGES = {
    path.parent.name: path for path in sorted((ROOT / "deploy" / "images").glob("*/Dockerfile"))
}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()
ENTRY = {
    "collector": ["lockstep.collector.__main__", "lockstep.commands.collect"],
    "watch": [
        "lockstep.watch.program",
        "lockstep.commands.analyze",
        "lockstep.commands.report",
    ],
    "dashboard": ["lockstep.cli.dashboard", "lockstep.dashboard.serve.app"],
    "nodes": [
        "lockstep.watch.kubernetes.program",
        "lockstep.watch.kubernetes.client",
        "lockstep.commands.doctor",
        "lockstep.doctor.installed",
        "lockstep.workloads.launch.kubernetes.api",
    ],
    "workloads": [
        "lockstep.workloads.__main__",
        "lockstep.runs.observe",
        "lockstep.runs.on_cluster",
    ],
}
"""Image -> modules that its commands need, imported with nothing else installed."""
START = {
    "collector": "lockstep.commands.collect", "watch": "lockstep.watch.program",
    "dashboard": "lockstep.dashboard.serve.server", "nodes": "lockstep.watch.kubernetes.program",
    "workloads": "lockstep.workloads.loop.train",
}  # fmt: skip
"""Image -> module that the command of its pods loads when it starts."""
# Refuses what is of another distribution, as if it were not installed.
ALONE = """
import importlib, sys
names = set(sys.argv[1].split(","))
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
for module in sys.argv[2:]:
    importlib.import_module(module)
"""


class Instruction(NamedTuple):
    """One of a Dockerfile, its lines joined."""

    word: str
    rest: str


def instructions(name: str) -> list[Instruction]:
    """A Dockerfile without comments.

    Format: https://docs.docker.com/reference/dockerfile
    """
    lines = [line for line in IMAGES[name].read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def last_stage(name: str) -> list[Instruction]:
    found = instructions(name)
    start = max(at for at, one in enumerate(found) if one.word == "FROM")
    return found[start:]


def pips(name: str) -> list[str]:
    """What pip is told, a command each."""
    lines = [one.rest for one in instructions(name) if one.word == "RUN"]
    return [
        part for line in lines for part in line.split(" && ")
        if re.search(r"pip (--python \S+ )?\w", part)
    ]  # fmt: skip


def test_there_is_an_image_for_every_extra():
    assert {"collector", "watch", "dashboard", "nodes", "workloads"} == set(IMAGES)
    assert set(locks.IMAGES) == set(IMAGES)
    in_images = {extra for extras in locks.IMAGES.values() for extra in extras}
    # `demo` is a part of the others for one machine.
    assert set(EXTRAS) - {"demo"} == in_images | set(locks.NO_IMAGE)


def test_the_chart_has_no_image_that_nobody_builds():
    used = {
        container["image"].rpartition("/")[2].partition(":")[0].removeprefix("lockstep-")
        for values in values_files().values()
        for _, template in pods(objects(values))
        for container in template["spec"]["containers"]
    }

    assert {"collector", "watch", "dashboard", "nodes"} == used


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_runs_as_a_user_that_is_not_root(name: str):
    [user] = [one.rest for one in last_stage(name) if one.word == "USER"]

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert "USER" in [one.word for one in last_stage(name)][-3:]


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_is_small_and_pinned(name: str):
    told = instructions(name)
    stages = [one.rest for one in told if one.word == "FROM"]
    copied = [one.rest for one in last_stage(name) if one.word == "COPY"]

    # What builds it stays behind: not even pip comes along.
    assert ["${BASE} AS tools", "tools AS dependencies", "tools AS own", "${BASE}"] == stages
    assert copied == [
        f"--from={stage} /opt/lockstep /opt/lockstep" for stage in ("dependencies", "own")
    ]
    assert 2 == sum("venv --without-pip /opt/lockstep" in one.rest for one in told)
    assert Instruction("ARG", "BASE=python:3.11.11-slim-bookworm") == told[0]
    for one in told:
        assert one.word != "ADD"
        assert "curl" not in one.rest
        if "apt-get install" in one.rest:
            assert "--no-install-recommends" in one.rest
            assert "rm -rf /var/lib/apt/lists/*" in one.rest


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_installs_only_files_whose_hash_is_known(name: str):
    told = pips(name)
    asked = [line for line in told if "--requirement" in line]
    rest = [line for line in told if line not in asked]

    assert [["locks/build.txt"], [f"locks/{name}.txt"]] == [
        re.findall(r"--requirement (\S+)", line) for line in asked
    ]
    for line in asked:
        assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(line.split())
    for line in rest:  # our own wheel, and torch by its version
        assert any(
            words <= set(line.split())
            for words in (
                {"wheel", "--no-build-isolation", "--no-deps", "."},
                {"install", "--no-index", "--no-deps", "/opt/wheels/*.whl"},
                {"install", "--constraint", "constraints.txt", "'torch'"},
                {"check"},
            )
        ), line
    assert all("--no-cache-dir" in line for line in told if "check" not in line)
    wants_torch = any(each.startswith("torch") for each in locks.requirements(name))
    assert wants_torch == any("'torch'" in line for line in rest)


@pytest.mark.parametrize("name", [*IMAGES, locks.BUILD])
def test_a_lock_has_all_that_its_image_needs_and_the_hash_of_each(name: str):
    told = locks.entries((locks.LOCKS / f"{name}.txt").read_text())
    needed = closure(locks.requirements(name))

    missing = needed - set(told)
    assert {each for each in missing if not locks.UNLOCKED.fullmatch(each)} == set()
    for entries in told.values():
        for entry in entries:
            assert re.match(r"[\w.-]+==[\w.!]+( ; .+)? \\\n", entry), entry
            assert re.search(r"--hash=sha256:[0-9a-f]{64}(\s|$)", entry), entry


@pytest.mark.parametrize("name", [*IMAGES, locks.BUILD])
def test_a_lock_agrees_with_pyproject_and_with_the_constraints(name: str):
    told = locks.entries((locks.LOCKS / f"{name}.txt").read_text())
    tested = locks.entries(locks.CONSTRAINTS.read_text())

    for line in locks.requirements(name):
        asked = Requirement(line)
        for entry in told.get(canonicalize_name(asked.name), []):
            assert asked.specifier.contains(version(entry)), line
    for each, entries in told.items():
        assert {version(entry) for entry in entries} <= {version(entry) for entry in tested[each]}


def test_the_constraints_pin_all_that_the_tests_ran_with():
    tested = locks.entries(locks.CONSTRAINTS.read_text())
    needed = closure([
        *(line for image in IMAGES for line in locks.requirements(image)),
        *locks.grouped(),
    ])  # fmt: skip

    assert {each for each in needed - set(tested) if not locks.UNLOCKED.fullmatch(each)} == set()
    assert ["2.13.0"] == [version(entry) for entry in tested["torch"]]
    assert not re.search(r"://|--(find-links|index-url|extra-index-url)", "".join(
        path.read_text() for path in (locks.CONSTRAINTS, *locks.LOCKS.glob("*.txt"))
    ))  # fmt: skip


def version(entry: str) -> str:
    return re.split(r"[ \\]", entry.partition("==")[2])[0]


@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_copies_is_there_and_is_sent_to_the_builder(name: str):
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }  # fmt: skip
    copied = {
        path.removeprefix("./")
        for one in instructions(name)
        if one.word == "COPY" and not one.rest.startswith("--from")
        for path in one.rest.split()[:-1]
    }

    assert copied == sent
    assert all((ROOT / path).exists() for path in copied)
    assert copied >= set(PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_starts_the_command_that_the_chart_gives_it(name: str):
    told = {one.word: one.rest for one in last_stage(name)}
    commands = typer.main.get_command(build()).commands  # type: ignore[attr-defined]

    if name == "workloads":  # launchers name the program themselves
        assert "[]" == told["ENTRYPOINT"]
    else:
        assert '["lockstep"]' == told["ENTRYPOINT"]
        assert told["CMD"].strip('["]') in commands | {"collect": None}
    assert PYPROJECT["project"]["version"] in IMAGES[name].read_text()


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_has_all_that_its_commands_import(name: str):
    kept = closure(locks.requirements(name))
    absent = {
        module
        for module, owners in DISTRIBUTIONS.items()
        if not kept & {canonicalize_name(owner) for owner in owners}
    } - {"lockstep"}
    answer = subprocess.run(
        [sys.executable, "-c", ALONE, ",".join(absent), *ENTRY[name]],
        capture_output=True, text=True, timeout=240, cwd=ROOT,
    )  # fmt: skip

    assert 0 == answer.returncode, answer.stderr[-2000:]


@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_loads_at_its_start_has_bytecode(name: str):
    at, told = next((at, one.rest) for at, one in enumerate(last_stage(name))
                    if one.rest.startswith("PYTHONDONTWRITEBYTECODE= python -c"))  # fmt: skip
    first, *more = re.findall(r"python (?:-B )?-c 'import (.*?)'", told)

    assert {"lockstep.app", START[name]} <= set(first.split(", "))
    assert set(ENTRY[name]) <= {each for line in (first, *more) for each in line.split(", ")}
    # Only what was copied before can have it.
    assert at > max(at for at, one in enumerate(last_stage(name)) if one.word == "COPY")


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_says_what_it_is(name: str):
    [told] = [one.rest for one in last_stage(name) if one.word == "LABEL"]
    labels = dict(re.findall(r'org\.opencontainers\.image\.([a-z.]+)="([^"]*)"', told))

    assert {
        "title": f"lockstep-{name}", "version": PYPROJECT["project"]["version"],
        "licenses": PYPROJECT["project"]["license"], "revision": "$REVISION", "base.name": "$BASE",
    } == {key: value for key, value in labels.items() if key != "description"}  # fmt: skip
    assert labels["description"]


@pytest.mark.parametrize("name", [each for each in IMAGES if each != "workloads"])
def test_an_image_has_the_health_check_that_the_chart_has(name: str):
    [told] = [one.rest for one in last_stage(name) if one.word == "HEALTHCHECK"]
    [container] = {
        str(container["ports"][0]["containerPort"]): container["livenessProbe"]["httpGet"]["path"]
        for _, template in pods(objects(values_files()["everything"]))
        for container in template["spec"]["containers"]
        if container["name"] == name
    }.items()

    assert "http://127.0.0.1:{}{}'".format(*container) in told


def trimmed(environment: Path) -> set[str]:
    subprocess.run(
        [sys.executable, ROOT / "deploy" / "images" / "trim.py", environment, "grpc*"],
        check=True, timeout=60,
    )  # fmt: skip
    return {str(path.relative_to(environment)) for path in environment.rglob("*") if path.is_file()}


def test_what_is_trimmed_are_tests_headers_and_named_parts_and_nothing_else(tmp_path: Path):
    kept = {
        "numpy/__init__.py", "numpy/testing/__init__.py", "torch/lib/libtorch.so",
        "pyarrow/libarrow.so.2600", "pyarrow/libarrow_python.so.2600", "plotly/graph_objs/bar.py",
        "fontTools/agl.py", "fontTools/misc/textTools.py", "altair/__init__.py", "PIL/Image.py",
    }  # fmt: skip
    gone = {
        "numpy/tests/test_a.py", "torch/include/c10/util.h", "pandas/frame.pyi",
        "torch/test/bin", "torch/lib/libjit_test.so", "pyarrow/libarrow_flight.so.2600",
        "pyarrow/_flight.cpython-311.so", "pyarrow/libarrow_python.so",
        "grpc/_cython/a.so", "plotly/labextension/index.js",
        "fontTools/ttLib/a.py", "fontTools/cu2qu/a.py", "fontTools/misc/a.so", "PIL/_avif.so",
        "altair/vegalite/v6/api.py", "pillow.libs/libavif.so.16",
        "plotly/package_data/widgetbundle.js", "fontTools/misc/bezierTools.c",
    }  # fmt: skip
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    beside = {"bin/python", "share/man/man1/a.1"}
    notebooks = {"share/jupyter/nbextensions/pydeck/index.js", "etc/jupyter/nbconfig/a.json"}
    for path in [
        *(packages / name for name in kept | gone),
        *(tmp_path / name for name in beside | notebooks),
    ]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    outside = tmp_path.with_name("outside")
    outside.mkdir()
    (outside / "kept.h").write_text("")
    (packages / "linked").symlink_to(outside)

    left = {str((packages / name).relative_to(tmp_path)) for name in kept}
    assert left | beside == {name for name in trimmed(tmp_path) if "/linked/" not in name}
    assert (outside / "kept.h").exists()


def test_the_collectors_image_has_neither_torch_nor_pandas():
    for name in ("collector", "nodes"):
        kept = closure(locks.requirements(name))
        assert set() == kept & {"torch", "pandas", "numpy", "streamlit"}


def closure(asked: list[str]) -> set[str]:
    """Distributions that come with what is asked for."""
    waiting = [Requirement(line) for line in asked]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while waiting:
        one = waiting.pop()
        for extra in one.extras or {""}:
            key = canonicalize_name(one.name), extra
            if key not in seen:
                seen.add(key)
                found.add(key[0])
                waiting += [
                    each for each in map(Requirement, _requires(one.name))
                    if each.marker is None or each.marker.evaluate({"extra": extra})
                ]  # fmt: skip
    return found


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # of another platform, or an extra that is not installed here
        return []
