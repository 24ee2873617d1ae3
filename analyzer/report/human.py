"""What people write into report.md, between marker comments; a new rendering keeps it."""

import re
from collections.abc import Mapping

BLOCKS: dict[str, str] = {
    "actions": "Owner and ticket of each action: none yet.",
    "lessons": "- What went well:\n- What went wrong:\n- Where we were lucky:",
    "review": "Reviewed by: none yet.",
}
"""Name of each block -> what stands there until somebody writes."""
_MARKER = re.compile(r"<!-- human:(begin|end) ([a-z][a-z0-9-]{0,31}) -->")
_KEPT = "\n\t\u200d"
"""The last one joins emoji."""


class HumanBlockError(ValueError):
    """The markers do not pair; the message names the block."""


def begin(name: str) -> str:
    """The comment before a block; it stands alone on its line."""
    return f"<!-- human:begin {name} -->"


def end(name: str) -> str:
    """The comment after a block."""
    return f"<!-- human:end {name} -->"


def written(markdown: str) -> dict[str, str]:
    """Name -> text of the blocks of a report.md, blocks of people's own names included.

    Raises:
        HumanBlockError: A block is not closed, opened twice, or inside another.
    """
    blocks_written: dict[str, str] = {}
    inside, lines = None, list[str]()
    for line in markdown.replace("\r\n", "\n").split("\n"):
        marker = _MARKER.fullmatch(line.rstrip())
        if marker is None:
            lines.append(line)
            continue
        what, name = marker.groups()
        if what == "begin":
            if inside is not None:
                raise HumanBlockError(f"the block {inside} is not closed before {line.rstrip()}")
            if name in blocks_written:
                raise HumanBlockError(f"the block {name} is there twice")
            inside, lines = name, []
        elif name != inside:
            raise HumanBlockError(f"{line.rstrip()} closes no block that is open")
        else:
            blocks_written[name] = _clean("\n".join(lines))
            inside = None
    if inside is not None:
        raise HumanBlockError(f"the block {inside} is not closed by {end(inside)}")
    return blocks_written


def blocks(written_blocks: Mapping[str, str]) -> dict[str, str]:
    """BLOCKS as told, and after them people's own."""
    return {**BLOCKS, **written_blocks}


def status(written_blocks: Mapping[str, str]) -> str:
    """`draft` until somebody wrote who reviewed the report, then `reviewed`."""
    default = BLOCKS["review"]
    return "draft" if written_blocks.get("review", default).strip() in ("", default) else "reviewed"


def lines(name: str, text: str) -> list[str]:
    """The block in Markdown; a marker inside the text is moved in by a blank and is none."""
    inner = [f" {line}" if _MARKER.fullmatch(line.rstrip()) else line for line in text.split("\n")]
    return [begin(name), *inner, end(name), ""]


def _clean(text: str) -> str:
    kept = (
        character if character.isprintable() or character in _KEPT else " " for character in text
    )
    return "".join(kept).strip("\n")
