"""Promises that no single file can keep: names, sizes, labels, plug-ins in their tuples."""

import ast
import os
import sys
from importlib.metadata import metadata, packages_distributions
from pathlib import Path

from lockstep.app import COMMANDS, GROUPS
from lockstep.collector.contract.metrics import METRICS
from tests.conftest import PARTS

ROOT = Path(__file__).parent.parent
DISTRIBUTION = "lockstep-monitor"
FILES = sorted(path for package in ("lockstep", *PARTS) for path in (ROOT / package).rglob("*.py"))
NO_NAMES = {"told", "one", "found", "each", "place"}
"""They do not say what a parameter holds."""
ROOM_AT_MOST = 16
"""Modules and folders of a package: who looks for a file sees all of them at once."""
ROOMY = {"lockstep", "lockstep/commands", "collector/contract"}
"""A part, a command, a table of the contract each."""
GRAB_BAGS = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "base"}


def test_nobody_else_owns_our_import_name() -> None:
    assert set(packages_distributions().get("lockstep", [DISTRIBUTION])) == {DISTRIBUTION}


def test_the_distribution_cannot_be_uploaded_by_accident() -> None:
    assert "Private :: Do Not Upload" in (metadata(DISTRIBUTION).get_all("Classifier") or [])


def test_no_metric_has_a_job_label() -> None:
    assert [] == [metric.name for metric in METRICS.values() if "job" in metric.labels]


def test_no_file_hides_a_standard_module() -> None:
    names = {path.stem for path in FILES if not path.stem.startswith("__")}

    assert set() == names & sys.stdlib_module_names


def test_no_file_is_a_grab_bag() -> None:
    assert set() == {path.stem for path in FILES} & GRAB_BAGS


def test_parameters_of_public_functions_say_what_they_hold() -> None:
    vague = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name}({argument.arg})"
        for path in FILES
        for function in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and not function.name.startswith("_")
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.arg in NO_NAMES
    ]

    assert [] == vague


def test_a_package_is_seen_at_once() -> None:
    rooms: dict[Path, set[str]] = {}
    for path in FILES:
        inside = path.relative_to(ROOT)
        for child, parent in zip((inside, *inside.parents), inside.parents, strict=False):
            if parent != Path(".") and child.name != "__init__.py":
                rooms.setdefault(parent, set()).add(child.name)
    crowded = {str(room): len(names) for room, names in rooms.items() if len(names) > ROOM_AT_MOST}

    assert set() == crowded.keys() - ROOMY


def test_no_code_stands_in_an_init() -> None:
    holders = {
        str(path.relative_to(ROOT))
        for path in FILES
        if path.name == "__init__.py"
        and any(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            for node in ast.parse(path.read_bytes()).body
        )
    }

    assert {"lockstep/__init__.py"} == holders  # its names are made when they are asked for


def test_every_module_says_what_it_knows() -> None:
    silent = [str(path) for path in FILES if not path.read_text("utf-8").startswith('"""')]

    assert [] == silent


def test_every_command_has_a_file_and_every_file_a_command() -> None:
    folder = ROOT / "lockstep" / "commands"
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    files = ({path.stem for path in folder.glob("*.py")} - {"__init__"}) | packages

    assert set(GROUPS) == packages  # a command of several words has a file for each subject
    assert sorted([*(command.__name__ for command in COMMANDS), *GROUPS]) == sorted(files)
    assert [f"lockstep.commands.{each.__name__}" for each in COMMANDS] == [
        command.__module__ for command in COMMANDS
    ]


def test_no_file_imports_a_part_by_its_bare_name() -> None:
    """In the tree it can be imported, and would be a second copy of every class."""
    bare = {
        str(path): names
        for path in FILES + sorted((ROOT / "tests").rglob("*.py"))
        if (names := imported(path) & set(PARTS))
    }

    assert {} == bare


def test_every_part_is_a_link_and_every_link_a_part() -> None:
    links = {path.name: os.readlink(path) for path in (ROOT / "lockstep").iterdir()
             if path.is_symlink()}  # fmt: skip

    assert {part: f"../{part}" for part in PARTS} == links


def imported(path: Path) -> set[str]:
    """First words of the names that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_analyzer_has_no_way_to_what_was_injected() -> None:
    strings = {
        str(path.relative_to(ROOT)): code_strings(path)
        for path in FILES
        if path.relative_to(ROOT).parts[0] == "analyzer"
    }

    assert [] == [path for path, names in strings.items() if names & {"TRUTH_FILE", "truth.json"}]


def code_strings(path: Path) -> set[str]:
    """Names and whole string constants of a file; prose in docstrings is longer than a name."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias)}
    return names | {each for each in constants if isinstance(each, str)}
