"""What a program iterates instead of its loader: each item is a step, all else is the loader's."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from lockstep.workloads.sdk.guard import hide


class Loop(Protocol):
    """A recorder as the loop over a loader sees it; none of these raises."""

    def item_wanted(self, *, after_another: bool) -> None:
        """The loop asks for its next item."""

    def item_given(self) -> None:
        """There is one."""

    def items_ended(self) -> None:
        """There is none."""

    def loop_left(self) -> None:
        """The loop ends after an item."""


class Steps:
    """Stands for an iterable, or for an iterator; see `steps`."""

    __slots__ = ("__weakref__", "_lockstep_items", "_lockstep_open", "_lockstep_recorder")

    def __init__(self, recorder: Loop, items: Any) -> None:
        object.__setattr__(self, "_lockstep_recorder", recorder)
        object.__setattr__(self, "_lockstep_items", items)
        object.__setattr__(self, "_lockstep_open", False)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        kind = type(self._lockstep_items)
        return type(self) if kind in _PLAIN else kind

    def __iter__(self) -> Any:
        items = self._lockstep_items
        try:
            iterator = iter(items)
        except BaseException as error:
            hide(error)
            raise
        return self if iterator is items else steps(self._lockstep_recorder, iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lockstep_items, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._lockstep_items, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._lockstep_items, name)

    def __copy__(self) -> Any:
        return steps(self._lockstep_recorder, copy.copy(self._lockstep_items))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return steps(self._lockstep_recorder, copy.deepcopy(self._lockstep_items, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _itself, (self._lockstep_items,)


def _next(self: Any) -> Any:
    recorder = self._lockstep_recorder
    recorder.item_wanted(after_another=self._lockstep_open)
    object.__setattr__(self, "_lockstep_open", False)
    try:
        item = next(self._lockstep_items)
    except BaseException as error:
        recorder.items_ended()
        hide(error)
        raise
    recorder.item_given()
    object.__setattr__(self, "_lockstep_open", True)
    return item


def _left(self: Any) -> None:
    if self._lockstep_open:
        self._lockstep_recorder.loop_left()


def _forwarded(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        items = self._lockstep_items
        try:
            answer = getattr(items, name)(*arguments, **named)
        except BaseException as error:
            hide(error)
            raise
        return self if answer is items else answer  # as `__enter__` and `+=` do

    return method


_classes: WeakKeyDictionary[type, type[Steps]] = WeakKeyDictionary()


def steps(recorder: Loop, items: Iterable[Any]) -> Any:
    """The items, each a step of the recorder; in all else what is given behaves as `items` does.

    It has the attributes, the special methods (`len`, `in`, `[]`) and, for `isinstance`, the class
    of the items. What stands for a plain list, tuple or range claims no such class: C code reads
    those past all methods. Pickled, it is the items.
    """
    kind = type(items)
    made = _classes.get(kind)
    if made is None:
        made = _classes[kind] = type("Steps", (Steps,), {"__slots__": (), **_special(kind)})
    return made(recorder, items)


def _special(kind: type) -> dict[str, Any]:
    """Special methods that a class has and not every object; `next` and what follows is a step."""
    names = {
        name
        for name in dir(kind)
        if name.startswith("__")
        and callable(getattr(kind, name, None))
        and getattr(kind, name, None) is not getattr(object, name, None)
        and not name.startswith("__torch")
    }
    methods: dict[str, Any] = {name: _forwarded(name) for name in names - _OWN}
    if getattr(kind, "__hash__", None) is None:
        methods["__hash__"] = None
    if issubclass(kind, Iterator):
        methods |= {"__next__": _next, "__del__": _left}
    if kind in _PLAIN and "__add__" in names:
        methods["__radd__"] = _added_to
    return methods


def _added_to(self: Any, other: Any) -> Any:
    return other + self._lockstep_items


_PLAIN = (list, tuple, range)
_OWN = frozenset(vars(Steps)) | {
    "__del__", "__getattribute__", "__getstate__", "__init_subclass__", "__new__", "__reduce__",
    "__setstate__", "__subclasshook__", "__class_getitem__", "__dict__",
}  # fmt: skip


def _itself(items: Any) -> Any:
    return items
