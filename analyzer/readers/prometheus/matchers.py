"""Matchers that are added to every selector of a query."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    | (?P<comment>\#[^\n]*)
    | (?P<span>\[[^\]]*\])
    | (?P<number>(?:\d[\w.]*|\.\d+)(?:(?<=[eE])[+-]\d+)?)
    | (?P<word>[a-zA-Z_:][a-zA-Z0-9_:]*)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LABELS_FOLLOW = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _LABELS_FOLLOW | {"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}
"""What is neither a metric nor a function; Prometheus' promql/parser/lex.go."""
_NO_METRIC_BEFORE = frozenset({"(", "{", "by", "without"})
"""After a function, a selector's own braces, an aggregation."""

Token = tuple[str, str]


def with_matchers(query: str, matchers: str) -> str:
    """The query with matchers in each of its selectors.

    Args:
        query: PromQL, as this program writes it: keywords in small letters.
        matchers: Such as `replica!="b"`, more with commas between; empty = the query as it is.
    """
    if not matchers:
        return query
    tokens = [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(query)]
    return "".join(_written(tokens, matchers))


def _written(tokens: list[Token], matchers: str) -> Iterator[str]:
    labels, place = False, 0
    while place < len(tokens):
        kind, text = tokens[place]
        place += 1
        yield text
        if kind == "word":
            after = _next(tokens, place)
            if text in _LABELS_FOLLOW:
                labels = after == "("
            elif not labels and text not in _WORDS and after not in _NO_METRIC_BEFORE:
                yield f"{{{matchers}}}"
        elif text == ")":
            labels = False
        elif text == "{" and kind == "other":
            inside = ""
            while place < len(tokens) and tokens[place] != ("other", "}"):
                inside += tokens[place][1]
                place += 1
            inside = inside.rstrip().removesuffix(",")
            yield f"{inside},{matchers}" if inside else matchers


def _next(tokens: list[Token], place: int) -> str:
    return next((text for kind, text in tokens[place:] if kind not in ("space", "comment")), "")
