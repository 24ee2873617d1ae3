"""A screen as lines of text, as wide as there is room: for pipes, and for the terminal's panels."""

from collections.abc import Iterator, Sequence

from lockstep.top.screen import UNKNOWN, Mood, Screen, Table

MARKS = {Mood.BAD: "!", Mood.UNKNOWN: "?", Mood.NOTE: " ", Mood.OK: " "}
"""Before each line: colour alone tells nobody anything."""
WIDE_NAME = 24
"""Of a node; the end of a longer name is what tells it from others."""
MOST_LINES = 200
"""Of a table: the worst come first, and nobody reads on."""


def plain(screen: Screen, width: int = 100) -> str:
    """The whole of it, for a pipe."""
    head = f"lockstep top  {screen.source}  {screen.when} UTC"
    said = [f"{MARKS[mood]} {text}" for text, mood in screen.sentences]
    parts = [head, *said]
    for table in (screen.nodes, screen.ranks, screen.gpus):
        parts += ["", table.title, *(line for line, _ in body(table, width))]
    return "\n".join(parts)


def body(table: Table, width: int) -> list[tuple[str, str]]:
    """Header and rows of a table, each with its mood; no line is longer than the width."""
    if not table.lines:
        return [(cut(table.empty, width), Mood.NOTE)]
    shown = table.lines[:MOST_LINES]
    rows = [table.header, *(_short(line.cells, table) for line in shown)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    moods = [Mood.NOTE, *(line.mood for line in shown)]
    lines = [(line, mood) for line, mood in zip(_aligned(rows, widths, moods, width), moods,
                                                 strict=True)]  # fmt: skip
    if len(table.lines) > MOST_LINES:
        lines.append((f"  and {len(table.lines) - MOST_LINES:,} more", Mood.NOTE))
    return lines


def cut(text: str, width: int) -> str:
    """At most so long; what is left out shows."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _short(cells: Sequence[str], table: Table) -> tuple[str, ...]:
    place = table.header.index("node")
    name = cells[place]
    if len(name) > WIDE_NAME:
        name = "…" + name[1 - WIDE_NAME :]
    return (*cells[:place], name, *cells[place + 1 :])


def _aligned(
    rows: Sequence[Sequence[str]], widths: Sequence[int], moods: Sequence[str], width: int
) -> Iterator[str]:
    """Numbers to the right, words to the left; the last column has what is left."""
    for row, mood in zip(rows, moods, strict=True):
        cells = [
            cell.rjust(wide) if _is_figure(column, rows) else cell.ljust(wide)
            for column, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        yield cut(f"{MARKS[mood]} {'  '.join(cells)}".rstrip(), width)


def _is_figure(column: int, rows: Sequence[Sequence[str]]) -> bool:
    """Names and what is said in words are not, whatever a node is called."""
    words = rows[0][column] == "node" or column == len(rows[0]) - 1
    return not words and all(
        row[column][:1].isdigit() or row[column] == UNKNOWN for row in rows[1:]
    )
