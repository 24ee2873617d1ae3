"""What the source weighs: `python -m tests.benchmarks.weight [REVISION]`, files, lines, statements.

Statements are those of the syntax tree without docstrings, so that long lines save nothing.
`--single` lists short modules that one module alone imports, `--unused` public names of the
source that only tests refer to, or nobody: both are for a reader to judge.
"""

import ast
import io
import re
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from tests.conftest import PARTS

ROOT = Path(__file__).parents[2]
PACKAGES = ("lockstep", *PARTS)
GENERATED = ("grafana/json/", "deploy/rules/", "deploy/kustomize/", "deploy/chart/files/")
SHORT = 60
Files = dict[str, str]
"""Path below the root -> text; a link is no file."""


def main() -> dict[str, float]:
    """Files, lines and statements of the source, and lines of what is generated, of HEAD."""
    files = committed("HEAD")
    source = {path: text for path, text in files.items() if is_source(path)}
    return {
        "source_files": len(source),
        "source_lines": sum(map(lines, source.values())),
        "source_statements": sum(map(statements, source.values())),
        "source_lines_of_a_file_median": median(map(lines, source.values())),
        "generated_lines": sum(map(lines, generated(files).values())),
    }


def committed(revision: str) -> Files:
    """The files of a revision."""
    packed = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            each.name: (archive.extractfile(each) or io.BytesIO()).read().decode("utf-8", "replace")
            for each in archive
            if each.isfile()
        }


def is_source(path: str) -> bool:
    """Python of the packages."""
    return path.endswith(".py") and path.partition("/")[0] in PACKAGES


def generated(files: Files) -> Files:
    """What is committed as a command wrote it."""
    return {path: text for path, text in files.items() if path.startswith(GENERATED)}


def lines(text: str) -> int:
    """Of a text."""
    return len(text.splitlines())


def statements(text: str) -> int:
    """Nodes of the syntax tree that are statements; strings that stand alone are prose."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(ast.parse(text))
    )


def module(path: str) -> str:
    """The dotted name of a file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def importers(files: Files) -> dict[str, set[str]]:
    """Module of the source -> modules of the source that import it or something of it."""
    names = {module(path) for path in files if is_source(path)}
    found = defaultdict(set)
    for path, text in files.items():
        if is_source(path):
            for one in imported(ast.parse(text)) & names:
                found[one].add(module(path))
    return found


def imported(tree: ast.Module) -> set[str]:
    """Every dotted name that imports could mean."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | {f"{node.module}.{each.name}" for each in node.names}
    return found


def single(files: Files) -> Iterator[str]:
    """Short modules with one importer, with both lengths."""
    known = importers(files)
    paths = {module(path): path for path in files if is_source(path)}
    for name, who in sorted(known.items()):
        if len(who) == 1 and not paths[name].endswith("__init__.py"):
            [reader] = who
            length = lines(files[paths[name]])
            if length <= SHORT:
                yield f"{length:4} {name}  ->  {lines(files[paths[reader]]):4} {reader}"


def unused(files: Files) -> Iterator[str]:
    """Public names defined in the source that no other line of the source says."""
    words = Counter[str]()
    for path, text in files.items():
        if is_source(path) or path.startswith(("examples/", "docs/", "README")):
            words.update(re.findall(r"\w+", text))
    for path, text in sorted(files.items()):
        if is_source(path):
            for name, node in defined(ast.parse(text)):
                if words[name] < 2 and not name.startswith("_") and not framework(node):
                    yield f"{path}:{node.lineno} {name}"


def framework(node: ast.stmt) -> bool:
    """Whether something else than a caller finds it: by its decorator."""
    return bool(getattr(node, "decorator_list", [])) and isinstance(node, ast.FunctionDef)


def defined(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes, methods, fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.ClassDef | ast.Module) else []
        for each in body:
            targets = each.targets if isinstance(each, ast.Assign) else []
            targets = [each.target] if isinstance(each, ast.AnnAssign) else targets
            yield from ((one.id, each) for one in targets if isinstance(one, ast.Name))


def table(files: Files) -> Iterator[str]:
    """A line a package, their sum, and what is generated."""
    parts: Mapping[str, Files] = {
        **{name: {path: text for path, text in files.items() if path.startswith(f"{name}/")
                  and path.endswith(".py")} for name in (*PACKAGES, "tests")},
        "source": {path: text for path, text in files.items() if is_source(path)},
    }  # fmt: skip
    yield f"{'':12}{'files':>8}{'lines':>9}{'statements':>12}{'median':>8}{'under 40':>10}"
    for name, part in parts.items():
        lengths = [lines(text) for text in part.values()]
        count = sum(map(statements, part.values()))
        short = sum(each < 40 for each in lengths)
        yield (f"{name:12}{len(part):8}{sum(lengths):9}{count:12}{median(lengths):8.0f}{short:10}")
    made = generated(files)
    yield f"{'generated':12}{len(made):8}{sum(map(lines, made.values())):9}"


if __name__ == "__main__":
    options = {"--single": single, "--unused": unused}
    [revision, *_] = [each for each in sys.argv[1:] if each not in options] or ["HEAD"]
    say = next((options[each] for each in sys.argv[1:] if each in options), table)
    sys.stdout.writelines(f"{line}\n" for line in say(committed(revision)))
