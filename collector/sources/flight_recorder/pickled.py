"""Reads a pickle of plain data with a machine that has no instruction for anything else.

Python's own unpickler can be told to refuse classes, but it still allocates what a hostile file
asks for (a memo index or a byte array of terabytes); here a file costs what it holds.
"""

import struct
from collections.abc import Callable
from typing import Any

from collector.reading import SourceError

MAX_INSTRUCTIONS = 1_000_000
"""A dump of 2,000 collectives with stack traces has 300,000."""

_MARK = object()
_CODE = {
    b"c": "GLOBAL", b"R": "REDUCE", b"i": "INST", b"o": "OBJ", b"b": "BUILD", b"P": "PERSID",
    b"Q": "BINPERSID", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX", b"\x93": "STACK_GLOBAL",
    b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4",
}  # fmt: skip
"""Instructions that import, call or rebuild (pickletools)."""


def loads(data: bytes) -> Any:
    """The value: None, truth values, numbers, texts, bytes, tuples, lists and dictionaries.

    Raises:
        SourceError: `unsafe`, it holds an instruction that could run code; `too_large`, it has too
            many; `content`, it is no pickle of plain data.
    """
    machine = _Machine(data)
    try:
        return machine.run()
    except (struct.error, IndexError, KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        why = f"{type(error).__name__}: {error}"[:120]
        raise SourceError("content", f"the pickle breaks at byte {machine.at}: {why}") from error


class _Machine:
    """The stack, the memo and the place in the file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, table = self.data, _INSTRUCTIONS
        for _ in range(MAX_INSTRUCTIONS):
            code = data[self.at]
            self.at += 1
            instruction = table[code]
            if instruction is not None:
                instruction(self)
            elif code == ord("."):
                (value,) = self.stack
                return value
            else:
                raise self._refused(bytes((code,)))
        raise SourceError("too_large", f"the pickle has over {MAX_INSTRUCTIONS} instructions")

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise ValueError("it ends inside a value")
        self.at, start = end, self.at
        return self.data[start:end]

    def number(self, form: str, size: int) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def since_mark(self) -> list[Any]:
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("a mark is missing")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def last(self, kind: type[Any]) -> Any:
        value = self.stack[-1]
        if type(value) is not kind:
            raise TypeError(f"items for a {kind.__name__} that is a {type(value).__name__}")
        return value

    def _refused(self, code: bytes) -> SourceError:
        if code in _CODE:
            return SourceError(
                "unsafe",
                f"the pickle holds {_CODE[code]} at byte {self.at - 1}, which could run code;"
                " nothing of it was read",
            )
        return SourceError("content", f"the pickle holds {code!r}, which no dump of torch does")


def _setitems(machine: _Machine) -> None:
    items = machine.since_mark()
    keys = items[::2]
    # Texts only: their hashes are salted, those of numbers can be made to collide.
    if not all(type(key) is str for key in keys):
        raise TypeError("a key that is no text")
    machine.last(dict).update(zip(keys, items[1::2], strict=True))


def _setitem(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    if type(key) is not str:
        raise TypeError("a key that is no text")
    machine.last(dict)[key] = value


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    machine.last(list).append(value)


def _appends(machine: _Machine) -> None:
    items = machine.since_mark()
    machine.last(list).extend(items)


def _tuple(size: int) -> Callable[[_Machine], None]:
    def instruction(machine: _Machine) -> None:
        if len(machine.stack) < size:
            raise IndexError("a tuple of more than there is")
        machine.stack[-size:] = [tuple(machine.stack[-size:])]

    return instruction


def _push(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(value)


def _number(form: str, size: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(machine.number(form, size))


def _text(form: str, size: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(
        machine.take(machine.number(form, size)).decode("utf-8", "surrogatepass")
    )


def _long(machine: _Machine) -> None:
    size = machine.number("<B", 1)
    machine.stack.append(int.from_bytes(machine.take(size), "little", signed=True))


def _put(form: str, size: int) -> Callable[[_Machine], None]:
    def instruction(machine: _Machine) -> None:
        machine.memo[machine.number(form, size)] = machine.stack[-1]

    return instruction


def _get(form: str, size: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(machine.memo[machine.number(form, size)])


def _memoize(machine: _Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _skip(size: int) -> Callable[[_Machine], None]:
    def instruction(machine: _Machine) -> None:
        machine.take(size)

    return instruction


def _table() -> tuple[Callable[[_Machine], None] | None, ...]:
    """Instructions by code (pickletools); what is None is refused, save the end."""
    known: dict[bytes, Callable[[_Machine], None]] = {
        b"\x80": _skip(1),
        b"\x95": _skip(8),
        b"(": _push(_MARK),
        b"N": _push(None),
        b"\x88": _push(True),
        b"\x89": _push(False),
        b"K": _number("<B", 1),
        b"M": _number("<H", 2),
        b"J": _number("<i", 4),
        b"\x8a": _long,
        b"G": _number(">d", 8),
        b"X": _text("<I", 4),
        b"\x8c": _text("<B", 1),
        b"}": lambda machine: machine.stack.append({}),
        b"]": lambda machine: machine.stack.append([]),
        b")": _push(()),
        b"t": lambda machine: machine.stack.append(tuple(machine.since_mark())),
        b"\x85": _tuple(1),
        b"\x86": _tuple(2),
        b"\x87": _tuple(3),
        b"s": _setitem,
        b"u": _setitems,
        b"a": _append,
        b"e": _appends,
        b"q": _put("<B", 1),
        b"r": _put("<I", 4),
        b"\x94": _memoize,
        b"h": _get("<B", 1),
        b"j": _get("<I", 4),
    }
    return tuple(known.get(bytes((code,))) for code in range(256))


_INSTRUCTIONS = _table()
