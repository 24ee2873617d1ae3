"""Text from outside as text of a figure: Plotly reads a few HTML tags and entities in it."""

LONGEST = 80
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def text(raw: str, longest: int = LONGEST) -> str:
    """It as Plotly shows it letter by letter: in labels, hovers, names of traces and categories.

    Plotly reads `<b> <br> <i> <sub> <sup> <a href> <span style>` and entities as `&lt;` in every
    text, and sets `$…$` by MathJax where a page has it; what is no letter becomes a space.

    Args:
        raw: A name of a node, run or line; a text of an event.
        longest: Characters that are shown; the rest is an ellipsis.
    """
    short = raw if len(raw) <= longest else f"{raw[: longest - 1]}…"
    shown = "".join(letter if letter.isprintable() else " " for letter in short)
    escaped = "".join(_ENTITIES.get(letter, letter) for letter in shown)
    return escaped.replace("$", "＄") if escaped.count("$") > 1 else escaped
