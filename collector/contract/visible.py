"""Text from outside, as a terminal may show it: what would steer the terminal is spelled out.

A node's name may hold escape sequences that clear the screen, move what was written or set the
clipboard, and bidirectional overrides that show a name in another order than it is compared in
(https://www.unicode.org/reports/tr36).
"""

import logging
import re
from collections.abc import Sequence

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tab and line feed
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # direction, or no width
    "\ud800-\udfff]"  # halves of a character, which no terminal can be sent
)
_LINES = str.maketrans({"\n": "\\n", "\t": "\\t"})


def visible(text: str) -> str:
    r"""`text` with every hidden character as JSON spells it: ``\u001b``.

    Line feeds and tabs stay. A JSON document stays the same document.
    """
    return HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_line(text: str) -> str:
    r"""`visible`, on one line: a name with a line feed must not look like a line of ours."""
    return visible(text).translate(_LINES)


class VisibleFormatter(logging.Formatter):
    """Log records of one line each; only a traceback has more."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, with nothing in it that steers a terminal."""
        shown = super().format(record)
        return visible(shown) if record.exc_info or record.stack_info else visible_line(shown)


# Secrets in a command or a message are masked wherever it is shown.

MASK = "***"

_SECRET_PARTS = frozenset(
    {"password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "credential",
     "credentials", "bearer", "auth", "authorization", "cookie", "apikey"}
)  # fmt: skip
_SECRET_LAST = frozenset({"token", "key", "pat", "sig", "signature"})
"""At the end of a name alone: --token is one, and --token-limit is none."""
_SECRET_ENDS = ("password", "token", "secret", "apikey", "accesskey", "secretkey", "privatekey")
"""Of names written as accessToken; the tokens of --num-tokens are many."""

_QUOTE = r"(?:'\"'\"'|'\\''|\\{1,4}[\"']|[\"'])"
"""As it stands, or inside of a quoted word of a shell (shlex.quote), or of JSON."""
_NAME = re.compile(
    r"(?P<dashes>(?<![\w-])--?)?(?<![A-Za-z0-9_])(?P<name>[A-Za-z_][\w.-]{0,99})"
    rf"{_QUOTE}?(?P<between>\s{{0,9}}[=:]\s{{0,9}}|\s{{1,9}})"
)
_VALUE = re.compile(
    rf"(?:(?:Bearer|Basic|Token)\s{{1,9}})?"
    rf"(?:'\"'\"'[^'\"\\]*(?:'\"'\"')?|(?P<quote>[\"'])(?:(?!(?P=quote)).)*(?P=quote)?"
    rf"|{_QUOTE}[^'\"\\]*{_QUOTE}?|[^\s'\"&;,)}}]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(?P<scheme>bearer)\s+(?P<value>[^\s'\"&;,)}]+)", re.IGNORECASE)
_USER = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/'\"]{1,500}@")
_SHAPES = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA|ASIA)[A-Za-z0-9_-]{16,500}"
)
"""Tokens that show themselves: Hugging Face, GitHub, GitLab, Slack, OpenAI, AWS."""


def masked(text: str) -> str:
    """The text with `***` for what is secret in it.

    Values of options, variables, keys and headers whose names say so (`--password x`, `--token=x`,
    `WANDB_API_KEY=x`, `Authorization: Bearer x`), user and password of URLs, and tokens by their
    form. A value is masked rather than shown where the name leaves a doubt.
    """
    text = _USER.sub(lambda match: f"{match['scheme']}{MASK}@", text)
    text = _SHAPES.sub(MASK, text)
    parts: list[str] = []
    done = at = 0
    while (match := _NAME.search(text, at)) is not None:
        at = match.end("name")
        separated = match["between"].strip()
        if not is_secret(match["name"]) or not (separated or match["dashes"]):
            continue
        value = _VALUE.match(text, match.end())
        if value is None or (not separated and value[0].startswith("-")):
            continue
        parts += [text[done : match.end()], MASK]
        done = at = value.end()
    return _SCHEME.sub(lambda match: f"{match['scheme']} {MASK}", "".join([*parts, text[done:]]))


def masked_words(words: Sequence[str]) -> list[str]:
    """The words of a command line, likewise; a word behind `--password` is its value.

    Of `--password=value` all of the word's rest is the value, and of `-u name:password` (curl) what
    stands behind the colon.
    """
    found: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        option = before.startswith("-") and "=" not in before and not word.startswith("--")
        name, is_set, _ = word.partition("=")
        if option and is_secret(before.lstrip("-")):
            found.append(MASK)
        elif word.startswith("-") and is_set and is_secret(name.lstrip("-")):
            found.append(f"{name}={MASK}")
        elif before in ("-u", "--user", "--proxy-user") and ":" in word:
            found.append(f"{word.partition(':')[0]}:{MASK}")
        else:
            found.append(masked(word))
    return found


def is_secret(name: str) -> bool:
    """Whether what stands under this name is secret."""
    words = [part for part in re.split(r"[-_.]", name.lower()) if part]
    if not words:
        return False
    return (
        not _SECRET_PARTS.isdisjoint(words)
        or words[-1] in _SECRET_LAST
        or words[-1].endswith(_SECRET_ENDS)
    )
