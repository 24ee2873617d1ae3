"""What a command answers, and its two parts: what must stay exactly, and words for people."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.freeze import inside

DIGITS = 6
"""Significant, of every number: the last bits differ between processors."""
WORDS = "(words)"
"""Stands in the exact part where words stood."""
CHECKOUT = str(Path(__file__).parents[2])
MOST_NUMBERS = 32
"""Of longer lists of numbers, as a chart has them, a mark is kept."""
PROSE = frozenset(
    {"sentence", "text", "title", "label", "alt", "source", "summary", "description", "help",
     "stderr", "rows", "missing", "provenance", "notes", "version"}
)  # fmt: skip
"""Keys of words, down to the last one below them. So are texts with blanks under other keys."""
PLACES = frozenset({"link", "remove", "expr", "command"})
"""Keys of texts that are exact, blanks or not."""
HEADINGS = frozenset({"columns", "facts"})
"""Keys of lists in which a `name` is a heading."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
OF_PROCESS = frozenset({"lockstep_thread_failures_total"})
"""Metrics with a series for each loop of the process that asks, whoever began it."""
SAMPLE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="')
YAML = re.compile(r"(#.*\n)*(groups|apiVersion):")


@dataclass
class Parts:
    """An answer in its two parts.

    Attributes:
        exact: The tree with WORDS in place of words, its numbers rounded.
        words: By path, "/" between its keys.
    """

    exact: Any = None
    words: dict[str, str] = field(default_factory=dict)


def split(tree: Any) -> Parts:
    """The two parts of a tree."""
    parts = Parts()
    parts.exact = _exact(tree, (), parts.words)
    return parts


def _exact(tree: Any, path: tuple[str, ...], words: dict[str, str]) -> Any:
    if isinstance(tree, Mapping):
        return {str(key): _exact(item, (*path, str(key)), words) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        numbers = _numbers(tree)
        if numbers is not None and len(numbers) > MOST_NUMBERS:
            return {"count": len(numbers), "mark": mark(tree)}
        return [_exact(item, (*path, str(at)), words) for at, item in enumerate(tree)]
    if isinstance(tree, str) and tree and _is_words(tree, path):
        words["/".join(path)] = tree
        return WORDS
    return rounded(tree)


def _is_words(text: str, path: tuple[str, ...]) -> bool:
    key = next((each for each in reversed(path) if not each.isdecimal()), "")
    if key in PLACES or (key == "query" and "{" in text):
        return False
    if " " in text or not PROSE.isdisjoint(path):
        return True
    return key == "name" and not HEADINGS.isdisjoint(path)


def _numbers(tree: Any) -> list[float | None] | None:
    """All in a list of numbers, or of such lists; None of another one."""
    if isinstance(tree, (list, tuple)):
        found: list[float | None] = []
        for item in tree:
            inner = _numbers(item)
            if inner is None:
                return None
            found += inner
        return found
    plain = tree is None or (isinstance(tree, (int, float)) and not isinstance(tree, bool))
    return [tree] if plain else None


def rounded(tree: Any) -> Any:
    """Its numbers to DIGITS digits; keys are texts."""
    if isinstance(tree, Mapping):
        return {str(key): rounded(item) for key, item in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [rounded(item) for item in tree]
    if isinstance(tree, float):
        return float(f"{tree:.{DIGITS}g}") if math.isfinite(tree) else repr(tree)
    return tree


def mark(tree: Any) -> str:
    """A short text that another tree does not have."""
    text = json.dumps(rounded(tree), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Path and value of each leaf; empty lists and objects are leaves."""
    items: list[tuple[str, Any]] = []
    if isinstance(tree, Mapping):
        items = [(str(key), item) for key, item in tree.items()]
    elif isinstance(tree, list):
        items = [(str(at), item) for at, item in enumerate(tree)]
    if not items:
        yield "/".join(path), tree
    for key, item in items:
        yield from leaves(item, (*path, key))


def ask(folder: Path, *words: str) -> dict[str, Any]:
    """The answer of `lockstep` with these words, and the files that it wrote under `folder`."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    code, out, err = inside.called(list(words))
    written = {
        path.relative_to(folder).as_posix(): _content(path, out)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and before.get(path) != path.stat().st_mtime_ns
    }
    answer = {"command": " ".join(words), "exit": code, "stdout": _read(out), "written": written,
              "stderr": err.splitlines()}  # fmt: skip
    return _placeless(answer, str(folder))


def _content(path: Path, out: str) -> Any:
    """Of a file; None where it says what stdout did, or is for machines."""
    if path.suffix not in (".json", ".yml"):
        return None
    found = _read(path.read_text("utf-8"))
    return None if found == _read(out) else found


def _read(text: str) -> Any:
    """JSON or YAML as a tree, a page of metrics as what is on it, other texts as lines."""
    if text[:1] in ("{", "["):
        return json.loads(text)
    if text.startswith("# HELP"):
        return page(text)
    if YAML.match(text):
        trees = list(yaml.safe_load_all(text))
        return trees[0] if len(trees) == 1 else trees
    return text.splitlines()


def page(text: str) -> dict[str, Any]:
    """By metric its type, its labels, and how many series it has."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            found[name] = {"type": kind, "labels": [], "series": 0}
        elif sample := SAMPLE.match(line):
            known = found.setdefault(sample["name"], {"type": None, "labels": [], "series": 0})
            known["series"] += sample["name"] not in OF_PROCESS
            known["labels"] = sorted({*known["labels"], *LABEL.findall(sample["labels"] or "")})
    return found


def _placeless(tree: Any, folder: str) -> Any:
    """Without where on this machine it was asked."""
    if isinstance(tree, Mapping):
        return {key: _placeless(item, folder) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_placeless(item, folder) for item in tree]
    if not isinstance(tree, str):
        return tree
    return ADDRESS.sub("http://HOST", tree.replace(folder, "DIR").replace(CHECKOUT, "CHECKOUT"))


def document(path: Path) -> Any:
    """A JSON file, without where on this machine it stands."""
    return _placeless(json.loads(path.read_text("utf-8")), str(path.parent))
