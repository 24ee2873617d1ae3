"""What was recorded of a case, and how an answer of today differs from it."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.freeze.answers import Parts, leaves, split
from tests.freeze.cases import Case

FOLDER = Path(__file__).parent / "recorded"
INDENT = "  "
WIDTH = 100
ABSENT = "(absent)"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Differences:
    """Of one case.

    Attributes:
        inputs: Files that are not what they were: what follows from them says nothing.
        exact: `PATH: BEFORE -> NOW`.
        wording: What a person reads.
    """

    inputs: list[str]
    exact: list[str]
    wording: list[str]


def answered(case: Case) -> Parts:
    """What the case gives today."""
    with TemporaryDirectory() as folder:
        answer = case.answered(Path(folder).resolve())
    parts = split(answer["answers"])
    return Parts({"input": answer["input"], "answers": parts.exact}, parts.words)


def record(case: Case, parts: Parts, folder: Path = FOLDER) -> None:
    """Keep an answer as what is expected from now on."""
    folder.mkdir(exist_ok=True)
    (folder / f"{case.name}.json").write_text(_document(parts.exact) + "\n", "utf-8")
    (folder / f"{case.name}.txt").write_text("".join(_lines(parts.words)), "utf-8")


def recorded(case: Case, folder: Path = FOLDER) -> Parts:
    """What was kept; nothing of a case that is new."""
    exact, words = folder / f"{case.name}.json", folder / f"{case.name}.txt"
    if not exact.exists():
        return Parts({"input": {}, "answers": []})
    return Parts(json.loads(exact.read_text("utf-8")), dict(_texts(words.read_text("utf-8"))))


def differences(before: Parts, now: Parts) -> Differences:
    """Between two answers."""
    return Differences(
        _changed(before.exact["input"], now.exact["input"]),
        _changed(before.exact["answers"], now.exact["answers"]),
        [*_reworded(before.words, now.words)],
    )


def _changed(before: Any, now: Any) -> list[str]:
    # Through JSON, as what was kept went.
    old, new = dict(leaves(before)), dict(leaves(json.loads(json.dumps(now))))
    return [
        f"{path}: {_shown(old, path)} -> {_shown(new, path)}"
        for path in dict.fromkeys([*old, *new])
        if path not in old or path not in new or old[path] != new[path]
    ]


def _shown(found: Mapping[str, Any], path: str) -> str:
    return json.dumps(found[path], ensure_ascii=False) if path in found else ABSENT


def _reworded(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in dict.fromkeys([*before, *now]):
        if before.get(path) == now.get(path):
            continue
        old, new = (texts[path].split("\n") if path in texts else [] for texts in (before, now))
        numbers = NUMBER.findall(" ".join(old)) != NUMBER.findall(" ".join(new))
        yield f"{path}{' (other numbers)' if numbers else ''}"
        lines = difflib.unified_diff(old, new, n=0, lineterm="")
        yield from (line for line in lines if not line.startswith(("---", "+++", "@@")))


def _document(tree: Any, indent: str = "") -> str:
    """JSON in which whatever fits stands on one line."""
    flat = json.dumps(tree, sort_keys=True, ensure_ascii=False)
    if len(indent + flat) <= WIDTH or not isinstance(tree, (dict, list)):
        return flat
    inner = indent + " "
    if isinstance(tree, list):
        items = [inner + _document(item, inner) for item in tree]
    else:
        items = [f"{inner}{json.dumps(key)}: {_document(tree[key], inner)}" for key in sorted(tree)]
    begin, end = "[]" if isinstance(tree, list) else "{}"
    return "\n".join([begin, ",\n".join(items), indent + end])


def _lines(words: Mapping[str, str]) -> Iterator[str]:
    for path, text in sorted(words.items()):
        yield f"{path}\n"
        yield from (f"{INDENT}{line}\n" for line in text.split("\n"))


def _texts(kept: str) -> Iterator[tuple[str, str]]:
    path, lines = "", list[str]()
    for line in kept.split("\n"):
        if line.startswith(INDENT):
            lines.append(line.removeprefix(INDENT))
            continue
        if path:
            yield path, "\n".join(lines)
        path, lines = line, []
