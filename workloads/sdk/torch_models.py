"""DistributedDataParallel: its gradient buckets pass through us, whenever the model was made.

Its reducer waits inside C++; a communication hook, which averages exactly as the reducer does or
calls the program's own, tells the times (torch/csrc/distributed/c10d/reducer.cpp).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import BuiltinCommHookType, GradBucket, Reducer
from torch.compiler import is_compiling
from torch.nn.parallel import DistributedDataParallel as Model

from workloads.sdk.guard import Guard
from workloads.sdk.torch_buckets import Buckets, CommHook, Reduced, average

Wait = Callable[[dist.Work], object]
_ANOTHER = "has a communication hook that is not ours"


class _Hook:
    """The communication hook of one model.

    Attributes:
        replaced: Whether it calls one of the program's; torch has room for one.
    """

    def __init__(self, buckets: Buckets, model: Model) -> None:
        self._buckets = buckets
        self._model = ref(model)
        self._state: Any = model.process_group
        self._ranks: int | None = None
        self.replaced = False
        self._hook: CommHook = average(lambda: self._ranks)

    def call(self, state: object, bucket: GradBucket) -> Reduced:
        """What torch calls with each bucket; it asks for these very names."""
        delayed: bool = getattr(self._model(), "static_graph", False)
        return self._buckets.reduce(self._hook, self._state, bucket, delayed=delayed)

    def replace(self, state: Any, hook: CommHook) -> None:
        """Call the program's hook from now on."""
        self._state, self._hook, self.replaced = state, hook, True

    def divide_by(self, ranks: int | None) -> None:
        """Average over so many ranks; None = all of the group."""
        self._ranks = ranks


class Models:
    """Gives every model its hook: when it is made, or at its next forward pass.

    There is room for one in C++; ours calls the one that the program registers afterwards.

    Args:
        willing: Whether models may be given our hook.
        guard: Told why a model's waiting is not timed, at each forward pass.
        wait: Waits for a collective and counts it as waiting.
    """

    def __init__(
        self, buckets: Buckets, willing: Callable[[], bool], guard: Guard, wait: Wait
    ) -> None:
        self._buckets = buckets
        self._willing, self._guard, self._wait = willing, guard, wait
        self._hooks: WeakKeyDictionary[Model, _Hook | str] = WeakKeyDictionary()
        self._joining: dist.Work | None = None
        self._register = Model.register_comm_hook

    def install(self) -> None:
        """Take the places, once."""
        self._follow_models()
        self._follow_hooks()
        original = Reducer._set_forward_pass_work_handle

        def joins(reducer: Reducer, work: dist.Work, whole: bool) -> None:
            # Only to learn how many ranks still train does the reducer wait for it.
            self._joining = None if whole else work
            original(reducer, work, whole)

        _put(Reducer, "_set_forward_pass_work_handle", joins)

    def _follow_models(self) -> None:
        make: Callable[..., None] = Model.__init__
        before: Callable[..., Any] = Model._pre_forward
        after: Callable[..., Any] = Model._post_forward

        def initialize(model: Model, *arguments: Any, **named: Any) -> None:
            make(model, *arguments, **named)
            self._guard(self._adopt, model)

        def pre_forward(model: Model, *arguments: Any, **named: Any) -> Any:
            if not is_compiling():
                self._joining = None
                self._guard(self._adopt, model)
            return before(model, *arguments, **named)

        def post_forward(model: Model, output: Any) -> Any:
            answer = after(model, output)
            if not is_compiling():
                self._guard(self._count_joined, model)
            return answer

        _put(Model, "__init__", initialize)
        _put(Model, "_pre_forward", pre_forward)
        _put(Model, "_post_forward", post_forward)

    def _follow_hooks(self) -> None:
        register = self._register
        check: Callable[..., None] = Model._check_comm_hook
        builtin: Callable[..., None] = Model._register_builtin_comm_hook

        def register_comm_hook(model: Model, state: Any, hook: CommHook) -> None:
            self._guard(self._adopt, model)
            ours = self._hooks.get(model)
            if not isinstance(ours, _Hook) or ours.replaced:
                register(model, state, hook)
                return
            check(model, hook)
            model._comm_hooks.append((hook, state))  # as torch's own does
            ours.replace(state, hook)

        def register_builtin(model: Model, kind: BuiltinCommHookType) -> None:
            """The two that torch has in C++ too, in Python; they compute the same."""
            self._guard(self._adopt, model)
            ours = self._hooks.get(model)
            if not isinstance(ours, _Hook) or ours.replaced:
                builtin(model, kind)
                return
            hooks = import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
            whole, half = hooks.allreduce_hook, hooks.fp16_compress_hook
            ours.replace(
                model.process_group, half if kind == BuiltinCommHookType.FP16_COMPRESS else whole
            )

        _put(Model, "register_comm_hook", register_comm_hook)
        _put(Model, "_register_builtin_comm_hook", register_builtin)

    def _adopt(self, model: Model) -> None:
        """Give the model our hook, or remember why it has none."""
        if not self._willing():
            return
        if model not in self._hooks:
            self._hooks[model] = self._hooked(model)
        why = self._hooks[model]
        if isinstance(why, str) and torch.is_grad_enabled():
            self._guard.lose(f"DistributedDataParallel {why}")

    def _hooked(self, model: Model) -> _Hook | str:
        """The hook that the model has now, or why it has none."""
        unfit = _unfit(model)
        if unfit:
            return unfit
        hook = _Hook(self._buckets, model)
        try:
            self._register(model, None, hook.call)
        except Exception:  # noqa: BLE001 - one in C++, which does not show, or another torch
            return _ANOTHER
        finally:
            # Ours is not the program's: who copies or saves the model finds what torch alone has.
            model._comm_hooks = [each for each in model._comm_hooks if each[0] != hook.call]
        return hook

    def _count_joined(self, model: Model) -> None:
        """Wait for the number of ranks that train, as the reducer is about to do in C++."""
        work, self._joining = self._joining, None
        hook = self._hooks.get(model)
        if not isinstance(hook, _Hook):
            return
        if work is None:
            hook.divide_by(None)
            return
        self._wait(work)
        hook.divide_by(int(work.result()[0].item()))


def _unfit(model: Model) -> str:
    """Why a model cannot have a hook and compute what it would without one; empty if it can."""
    if model._comm_hooks:
        return _ANOTHER
    if {parameter.device.type for parameter in model.parameters()} != {"cpu"}:
        return "computes on a device"
    if any(getattr(each, "sparse", False) for each in model.module.modules()):
        return "has sparse gradients, which hooks cannot carry"
    ranks = model.process_group.size()
    if model.gradient_as_bucket_view and ranks & (ranks - 1):
        # The reducer divides gradients that lie in their bucket already and multiplies those that
        # it copies there; a hook cannot tell them apart. By a power of two, both are the same.
        return f"keeps gradients as views of buckets and divides by {ranks}"
    return ""


def _put(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
