"""The report tree as text: as a page, as GitHub Markdown, where charts are tables, or as JSON."""

import json
import re
from collections.abc import Mapping
from typing import Any

from lockstep.analyzer.report import human
from lockstep.analyzer.report.figures import TEXTUAL, cell
from lockstep.collector.contract.visible import visible

_ESCAPED = str.maketrans(
    {each: f"\\{each}" for each in "\\`*[]#|~$"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "\n": " ", "\r": " "}
)
_EDGE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""An underscore inside a word, as in metric names, is no emphasis and stays readable."""
_OPEN = re.compile(r"[`<>&|\\]")


def escape(text: str) -> str:
    """Text that Markdown shows as it stands, also inside a table cell; one line."""
    text = _EDGE_UNDERSCORE.sub(r"\_", text.translate(_ESCAPED))
    return "".join(each if each.isprintable() else " " for each in text)


def markdown(tree: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    lines = [f"# {escape(tree['title'])}", ""]
    lines += [f"Run **{escape(tree['run'])}**: {escape(tree['status'])}. Report: {tree['review']}."]
    lines += ["", escape(" ".join(tree["summary"])), ""]
    lines += [
        "· ".join(
            f"{escape(each['name'])} {escape(cell(each['value'], each['unit']))} "
            for each in tree["facts"]
        ).strip(),
        "",
    ]
    for section in tree["sections"]:
        lines += [f"## {escape(section['title'])}", ""]
        for block in section["blocks"]:
            lines += _block(block)
    made = tree["generated_at"] or "unknown"
    lines.append(f"Lockstep {escape(tree['version'])}, data up to {made}.")
    return "\n".join(lines) + "\n"


def _block(block: Mapping[str, Any]) -> list[str]:
    match block["block"]:
        case "text":
            return [escape(block["text"]), ""]
        case "callout":
            return [f"> **{escape(block['label'])}**: {escape(block['text'])}", ""]
        case "links":
            return [*(f"- [{escape(one['text'])}]({one['url']})" for one in block["links"]), ""]
        case "human":
            return human.lines(block["name"], block["text"])
        case "code":
            # Indented, not fenced: no content can end it.
            return [*(f"    {visible(line)}" for line in block["text"].splitlines()), ""]
        case "table" if not block["collapsed"]:
            return _table(block)
        case _:
            return []


def _table(block: Mapping[str, Any]) -> list[str]:
    columns = block["columns"]
    rows = [
        [
            _code(str(value)) if column["name"] == "query" else escape(cell(value, column["unit"]))
            for value, column in zip(row, columns, strict=True)
        ]
        for row in block["rows"]
    ]
    header = [escape(column["name"]) for column in columns]
    rule = ["---" if column["unit"] in TEXTUAL else "---:" for column in columns]
    title = f"*{escape(block['title'])}*"
    lines = [title, "", *(f"| {' | '.join(row)} |" for row in (header, rule, *rows)), ""]
    return [*lines, f"Source: {_code(block['source'])}", ""] if block["source"] else lines


def _code(text: str) -> str:
    """A query verbatim on one line; what could end the span or the cell is escaped instead."""
    line = visible(" ".join(text.split()))
    return escape(line) if not line or _OPEN.search(line) else f"`{line}`"


FORMATS: tuple[str, ...] = ("html", "md", "json")


def render(tree: Mapping[str, Any], form: str) -> str:
    """The report tree (document.document) as text in one of FORMATS.

    Raises:
        ValueError: Another format.
    """
    # Jinja2 and matplotlib are imported by those who want a page.
    match form:
        case "html":
            from lockstep.analyzer.report.page import page

            return page(tree)
        case "md":
            return markdown(tree)
        case "json":
            return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        case _:
            raise ValueError(f"{form!r} is not one of {', '.join(FORMATS)}")
