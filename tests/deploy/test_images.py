"""The Dockerfiles, as far as they can be judged without building them: no image was built here."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from typing import NamedTuple

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lockstep.cli import build
from tests.deploy.chart.chart import CHART, objects, pods, values_files

ROOT = CHART.parents[1]
IMAGES = {
    path.parent.name: path for path in sorted((ROOT / "deploy" / "images").glob("*/Dockerfile"))
}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()
ENTRY = {
    "collector": ["collector.__main__", "lockstep.commands.collect"],
    "watch": ["lockstep.watching.program", "lockstep.commands.analyze", "lockstep.commands.report"],
    "dashboard": ["lockstep.dashboard_program", "dashboard.app"],
    "nodes": ["lockstep.acting.program", "analyzer.act.nodes.kubernetes"],
    "workloads": ["workloads.__main__", "lockstep.observe", "lockstep.on_cluster"],
}
"""Image -> modules that its commands need, imported with nothing else installed."""
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


def installed(name: str) -> list[str]:
    """What pip is asked for, in its own words."""
    [line] = [one.rest for one in instructions(name) if "pip install" in one.rest]
    return re.findall(r"'([^']+)'", line.partition("pip install")[2])


def extras(name: str) -> set[str]:
    [own] = [each for each in installed(name) if each.startswith(".[")]
    return set(own[2:-1].split(","))


def test_there_is_an_image_for_every_extra():
    assert {"collector", "watch", "dashboard", "nodes", "workloads"} == set(IMAGES)
    assert set(EXTRAS) == set().union(*map(extras, IMAGES))


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
    bases = [one.rest.split()[0] for one in told if one.word == "FROM"]

    assert 2 == len(bases)  # what builds it stays behind
    assert {"python:3.11.11-slim-bookworm"} == set(bases)
    for one in told:
        assert one.word != "ADD"
        assert "curl" not in one.rest
        if "pip install" in one.rest:
            assert "--constraint constraints.txt" in one.rest
            assert "--no-cache-dir" in one.rest
        if "apt-get install" in one.rest:
            assert "--no-install-recommends" in one.rest
            assert "rm -rf /var/lib/apt/lists/*" in one.rest


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
    kept = closure(installed(name))
    absent = {
        module
        for module, owners in DISTRIBUTIONS.items()
        if not kept & {canonicalize_name(owner) for owner in owners}
    } - {"lockstep", "dashboard", "analyzer", "workloads", "collector", "grafana"}
    answer = subprocess.run(
        [sys.executable, "-c", ALONE, ",".join(absent), *ENTRY[name]],
        capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip

    assert 0 == answer.returncode, answer.stderr[-2000:]


def test_the_collectors_image_has_neither_torch_nor_pandas():
    assert set() == closure(installed("collector")) & {"torch", "pandas", "numpy", "streamlit"}
    assert set() == closure(installed("nodes")) & {"torch", "pandas", "numpy", "streamlit"}


def closure(asked: list[str]) -> set[str]:
    """Distributions that come with what is asked for, ours without its name."""
    own = [each for each in asked if each.startswith(".[")]
    words = [line for each in own for extra in each[2:-1].split(",") for line in EXTRAS[extra]]
    words += [*PYPROJECT["project"]["dependencies"], *(each for each in asked if each not in own)]
    waiting = [Requirement(line) for line in words]
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
