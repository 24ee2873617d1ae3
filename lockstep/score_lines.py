"""What the scores share: the lines that they keep, and the table of their figures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep import output


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to the results, on a line of its own even after a torn one."""
    held = path.read_bytes() if path.exists() else b""
    torn = held != b"" and not held.endswith(b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" * torn + json.dumps(line, allow_nan=False) + "\n")


def figures(tree: Mapping[str, Any], title: str) -> str:
    """What `analyzer.scoring.score` counted, with intervals, beside all baselines."""
    rivals = tree["baselines"]
    rows = [
        (
            name,
            number(figure["value"]),
            f"{figure['count']} of {figure['of']}" if "of" in figure and "count" in figure else "",
            " to ".join(number(bound) for bound in figure.get("interval") or ()),
            *(number(rivals[rival].get(name, {}).get("value")) for rival in rivals),
        )
        for name, figure in tree.items()
        if isinstance(figure, dict) and "value" in figure
    ]
    return output.grid((title, "lockstep", "counts", "95 % interval", *rivals), rows)


def number(value: float | None) -> str:
    """Three digits; "-" for what is not known."""
    return "-" if value is None else f"{value:.3g}"
