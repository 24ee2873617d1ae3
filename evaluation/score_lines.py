"""What the scores share: the lines that they keep, and the table of their figures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.terminal import output


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to the results, on a line of its own even after a torn one."""
    held = path.read_bytes() if path.exists() else b""
    torn = held != b"" and not held.endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * torn + json.dumps(line, allow_nan=False) + "\n")


def figures(tree: Mapping[str, Any], title: str) -> str:
    """What `lockstep.evaluation.scoring.score` counted, with intervals, beside all baselines."""
    baselines = tree["baselines"]
    rows = [
        (
            name,
            number(figure["value"]),
            _counts(figure),
            " to ".join(number(bound) for bound in figure.get("interval") or ()),
            *(number(baselines[baseline].get(name, {}).get("value")) for baseline in baselines),
        )
        for name, figure in tree.items()
        if isinstance(figure, dict) and "value" in figure and not _is_unasked(figure)
    ]
    return output.grid((title, "lockstep", "counts", "95 % interval", *baselines), rows)


def _is_unasked(figure: Mapping[str, Any]) -> bool:
    """A share of nothing."""
    return figure.get("of") == 0 and "count" in figure


def _counts(figure: Mapping[str, Any]) -> str:
    if "causes" in figure:
        return f"mean of {figure['causes']}"
    return f"{figure['count']} of {figure['of']}" if {"count", "of"} <= figure.keys() else ""


def causes(by_cause: Mapping[str, Any], title: str) -> str:
    """How often each cause's place was named, and with its cause; with 95 % intervals."""
    rows = [
        (
            cause,
            *(words for name in ("found", "cause") for words in _counted(row[name])),
            ", ".join(f"{count} {said}" for said, count in sorted(row["instead"].items())),
        )
        for cause, row in by_cause.items()
    ]
    interval = "95 % interval"
    return output.grid(
        (title, "place named", interval, "with its cause", interval, "instead"), rows
    )


def difficulties(by_difficulty: Mapping[str, Any], title: str) -> str:
    """What was named of culprits at least 10 % slow, by what else was hard about their runs."""
    names = ("precision", "recall", "cause_macro", "both_named", "healthy_named")
    rows = [
        (
            difficulty,
            str(row["runs"]),
            *(words for name in names
              for words in (number(row[name]["value"]), _counts(row[name]))),
        )
        for difficulty, row in by_difficulty.items()
    ]  # fmt: skip
    heads = ("precision", "recall", "cause, macro", "both of two", "healthy with a name")
    return output.grid((title, "runs", *(each for head in heads for each in (head, ""))), rows)


def _counted(rate: Mapping[str, Any]) -> tuple[str, str]:
    interval = " to ".join(number(bound) for bound in rate["interval"] or ())
    return f"{rate['count']} of {rate['of']}", interval


def number(value: float | None) -> str:
    """Three digits; "-" for what is not known."""
    return "-" if value is None else f"{value:.3g}"
