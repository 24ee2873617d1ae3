"""The events of RAS' MONITOR stream (NCCL 2.29), JSON objects or lines, as they trickle in."""

import codecs
import json
import re

from collector.reading import SourceError

MAX_PENDING = 1 << 16
"""Characters of one event that has not ended."""

_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,39}", re.ASCII)
_LINE = re.compile(r"\[[0-9: -]{1,40}\] ([A-Z][A-Z0-9_]{0,39}):.*", re.ASCII)


class EventStream:
    """Cuts what a socket gives into events; what has not ended waits for the rest."""

    def __init__(self, in_json: bool) -> None:
        self._in_json = in_json
        self._pending = ""
        self._decoder = json.JSONDecoder()
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> list[str]:
        """Names of the events that are whole now, in small letters.

        Raises:
            SourceError: The stream holds something else; it cannot be followed any further.
        """
        self._pending += self._bytes.decode(data)
        names = self._objects() if self._in_json else self._lines()
        if len(self._pending) > MAX_PENDING:
            raise SourceError("too_large", f"an event of RAS exceeds {MAX_PENDING} characters")
        return names

    def _objects(self) -> list[str]:
        names = []
        while text := self._pending.lstrip():
            self._pending = text
            if text[0] != "{":
                raise SourceError("content", f"no event of RAS begins with {text[:40]!r}")
            try:
                event, end = self._decoder.raw_decode(text)
            except (ValueError, RecursionError):
                break
            self._pending = text[end:]
            name = event.get("event")
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise SourceError("content", f"{str(name)[:40]!r} is no event of RAS")
            names.append(name.lower())
        return names

    def _lines(self) -> list[str]:
        *whole, self._pending = self._pending.split("\n")
        names = []
        for line in whole:
            match = _LINE.fullmatch(line.rstrip("\r"))
            if match is None and line.strip():
                raise SourceError("content", f"{line[:60]!r} is no event of RAS")
            if match is not None:
                names.append(match[1].lower())
        return names
