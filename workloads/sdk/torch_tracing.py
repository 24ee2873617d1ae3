"""Keeps torch.compile out of our functions, which run within programs that it traces."""

from types import CodeType, FunctionType, ModuleType

import torch


def untraced(*owners: type | ModuleType) -> None:
    """Have the functions of classes and modules run as they are, and those defined within them.

    Does nothing in a torch that has no such mark.
    """
    skip = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
    if skip is None:
        return
    for owner in owners:
        for each in vars(owner).values():
            function = each.fget if isinstance(each, property) else each
            if isinstance(function, FunctionType):
                for code in _within(function.__code__):
                    skip(code)


def _within(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(found for each in inner for found in _within(each))]
