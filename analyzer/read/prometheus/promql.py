"""Words of PromQL: strings, alternatives, selectors, durations, and matchers for a whole query."""

import re
from collections.abc import Iterable, Iterator

from lockstep.analyzer.shapes.labels import Target


def quoted(text: str) -> str:
    """A string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(texts: Iterable[str]) -> str:
    """A quoted regular expression that matches these texts and no others."""
    return quoted("|".join(re.escape(text) for text in texts))


def series(name: str, words: str = "", **equal: str) -> str:
    """Series by name and labels: `series("up", job="a")`; `words` are matchers as they are."""
    parts = [f"{label}={quoted(value)}" for label, value in equal.items()]
    return f"{name}{{{','.join([*([words] if words else []), *parts])}}}"


def of_targets(targets: Iterable[Target]) -> str:
    """Matchers of the pages of some targets."""
    jobs, instances = zip(*sorted(set(targets)), strict=True)
    return f"job=~{one_of(sorted(set(jobs)))},instance=~{one_of(sorted(set(instances)))}"


def lasting(seconds: float) -> str:
    """A duration: `[15000ms]` without its brackets."""
    return f"{max(1, round(seconds * 1000))}ms"


def window(step: float, scrape: float) -> str:
    """For rate(): four scrapes or the step; `$__rate_interval` of Grafana, at our step."""
    return lasting(max(step, 4 * scrape))


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


def ahead(query: str, seconds: float) -> str:
    """The query of what is that much later: `offset -300s` behind each of its selectors.

    Args:
        query: PromQL, as this program writes it; an offset of its own is in milliseconds.
        seconds: How much.
    """
    later = f" offset -{round(seconds)}s"
    # A selector, once with braces, ends with them or with the span that follows.
    tokens = _tokens("".join(_written(_tokens(query), "")))
    found = []
    for place, (kind, text) in enumerate(tokens):
        found.append(text)
        closes = (kind, text) == ("other", "}") and _kind(tokens, place + 1) != "span"
        if closes or (kind == "span" and _ends_selector(tokens, place)):
            found.append(later)
    return re.sub(
        rf"{later}\s+offset\s+(\d+)ms",
        lambda own: f" offset {int(own[1]) - round(seconds) * 1000}ms", "".join(found),
    )  # fmt: skip


def with_matchers(query: str, matchers: str) -> str:
    """The query with matchers in each of its selectors.

    Args:
        query: PromQL, as this program writes it: keywords in small letters.
        matchers: Such as `replica!="b"`, more with commas between; empty = the query as it is.
    """
    if not matchers:
        return query
    return "".join(_written(_tokens(query), matchers))


def _tokens(query: str) -> list[Token]:
    return [(str(found.lastgroup), found[0]) for found in _TOKEN.finditer(query)]


def _kind(tokens: list[Token], index: int) -> str:
    return tokens[index][0] if index < len(tokens) else ""


def _ends_selector(tokens: list[Token], index: int) -> bool:
    """Of a span: it stands behind a selector, not behind a subquery's expression."""
    return index > 0 and tokens[index - 1] == ("other", "}")


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
            yield f"{inside},{matchers}" if inside and matchers else inside or matchers


def _next(tokens: list[Token], index: int) -> str:
    return next((text for kind, text in tokens[index:] if kind not in ("space", "comment")), "")
