"""DistributedDataParallel: its gradient buckets pass through us, whenever the model was made.

Its reducer waits inside C++; a communication hook, which averages exactly as the reducer does or
calls the program's own, tells the times (torch/csrc/distributed/c10d/reducer.cpp).
"""

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import BuiltinCommHookType, GradBucket, Reducer
from torch.nn.parallel import DistributedDataParallel as Model

from lockstep.workloads.sdk.guard import Guard
from lockstep.workloads.sdk.pytorch.buckets import Averaging, Buckets, CommHook, Reduced

Wait = Callable[[dist.Work], object]
_ANOTHER = "has a communication hook that is not ours"


class _Hook:
    """The communication hook of one model.

    Attributes:
        hook: What computes: one that averages, or the program's own; torch has room for one.
        state: That the hook is given.
        averaging: None once it is the program's own.
    """

    def __init__(self, model: Model) -> None:
        self._model = ref(model)
        self.state: Any = model.process_group
        self.averaging: Averaging | None = Averaging()
        self.hook: CommHook = self.averaging

    def call(self, state: object, bucket: GradBucket) -> Reduced:
        """What torch calls with each bucket; it asks for these very names."""
        return self.hook(self.state, bucket)

    def delayed(self) -> bool:
        """Whether the reducer may keep all buckets for the end of the pass."""
        static: bool = getattr(self._model(), "static_graph", False)
        return static


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
        around = self._guard.around
        _put(Model, "__init__", around(Model.__init__, _model, self._made))
        _put(Model, "_pre_forward", around(Model._pre_forward, self._forward_begins))
        _put(Model, "_post_forward", around(Model._post_forward, _model, self._forward_ended))
        joins = Reducer._set_forward_pass_work_handle
        _put(Reducer, "_set_forward_pass_work_handle", around(joins, self._joins))
        self._follow_hooks()

    def _made(self, model: Model, _: None) -> None:
        self._adopt(model)

    def _forward_begins(self, model: Model, *_: Any, **named: Any) -> None:
        self._joining = None
        self._adopt(model)

    def _forward_ended(self, model: Model, _: Any) -> None:
        self._count_joined(model)

    def _joins(self, _: Reducer, work: dist.Work, whole: bool) -> None:
        # Only to learn how many ranks still train does the reducer wait for it.
        self._joining = None if whole else work

    def _follow_hooks(self) -> None:
        """The program's hook is called by ours, for which torch has no second place.

        These two are not behind the guard: they do what torch's own would, and raise what it does.
        """
        register = self._register
        check: Callable[..., None] = Model._check_comm_hook
        builtin: Callable[..., None] = Model._register_builtin_comm_hook

        @functools.wraps(register)
        def register_comm_hook(model: Model, state: Any, hook: CommHook) -> None:
            self._guard(self._adopt, model)
            ours = self._hooks.get(model)
            if isinstance(ours, str) or ours is None or ours.averaging is None:
                register(model, state, hook)
                return
            check(model, hook)
            model._comm_hooks.append((hook, state))  # as torch's own does
            ours.state, ours.hook, ours.averaging = state, hook, None

        @functools.wraps(builtin)
        def register_builtin(model: Model, comm_hook_type: BuiltinCommHookType) -> None:
            """The two that torch has in C++ too, in Python; they compute the same."""
            self._guard(self._adopt, model)
            ours = self._hooks.get(model)
            if isinstance(ours, str) or ours is None or ours.averaging is None:
                builtin(model, comm_hook_type)
                return
            hooks = import_module("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
            half = comm_hook_type == BuiltinCommHookType.FP16_COMPRESS
            ours.state = model.process_group
            ours.hook = hooks.fp16_compress_hook if half else hooks.allreduce_hook
            ours.averaging = None

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
        hook = _Hook(model)
        call = self._buckets.hook(hook.call, delayed=hook.delayed)
        try:
            self._register(model, None, call)
        except Exception:  # noqa: BLE001 - one in C++, which does not show, or another torch
            return _ANOTHER
        finally:
            # Ours is not the program's: who copies or saves the model finds what torch alone has.
            model._comm_hooks = [hook for hook in model._comm_hooks if hook[0] is not call]
        return hook

    def _count_joined(self, model: Model) -> None:
        """Wait for the number of ranks that train, as the reducer is about to do in C++."""
        work, self._joining = self._joining, None
        hook = self._hooks.get(model)
        if hook is None or isinstance(hook, str) or hook.averaging is None:
            return
        if work is None:
            hook.averaging.ranks = None
            return
        self._wait(work)
        hook.averaging.ranks = int(work.result()[0].item())


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


def _model(model: Model, *_: Any, **named: Any) -> Model:
    return model


def _put(owner: type, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)
