"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """As code; a bar would end the cell."""
    return f"`{text}`".replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *([_cell(each) for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("|  |", "| |")


def _cell(text: str) -> str:
    return text if "\\|" in text else text.replace("|", "\\|")
