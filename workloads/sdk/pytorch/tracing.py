"""Keeps torch.compile out of our functions, which run within programs that it traces."""

from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch


def untraced(*owners: type | ModuleType) -> None:
    """Have the functions of classes and modules run as they are, and those defined within them.

    Does nothing in a torch that has no such mark.
    """
    skip = _skip()
    if skip is None:
        return
    for owner in owners:
        for each in vars(owner).values():
            function = each.fget if isinstance(each, property) else each
            if isinstance(function, FunctionType):
                for code in _within(function.__code__):
                    skip(code)


def _skip() -> Callable[[CodeType], object] | None:
    """What torch._dynamo.eval_frame.skip_code does, without importing it for the program."""
    frames: Any = torch._C._dynamo.eval_frame
    skip: Callable[[CodeType], object] | None = getattr(frames, "skip_code", None)
    if skip is not None:  # before torch 2.7
        return skip
    try:
        action = frames._FrameAction
        strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
        mark: Callable[[CodeType, object], object] = frames.set_code_exec_strategy
    except AttributeError:
        return None
    return lambda code: mark(code, strategy)


def _within(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(nested for part in inner for nested in _within(part))]
