"""A torch program's start, followed from outside: what torch calls, and what must not harm it."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist

from lockstep.workloads.measure.starting import (
    FOLDER_VARIABLE,
    FOLLOWER,
    Starting,
    first_step_ended,
)
from lockstep.workloads.sdk.pytorch import start as torch_start
from lockstep.workloads.sdk.pytorch.start import TorchStart, follow


class Handler:
    """As torch._dynamo.callback's, which calls with an argument since torch 2.8 only."""

    def __init__(self):
        self.start_callbacks, self.end_callbacks = [], []
        self.register_start_callback = self.start_callbacks.append
        self.register_end_callback = self.end_callbacks.append

    def clear(self):
        self.start_callbacks.clear()
        self.end_callbacks.clear()

    def begin(self, *arguments):
        for each in self.start_callbacks:
            each(*arguments)

    def end(self, *arguments):
        for each in self.end_callbacks:
            each(*arguments)


@pytest.fixture(autouse=True)
def places(monkeypatch):
    """Those that are taken in torch, given back after the test; nothing was compiled yet."""
    meets = []

    def init_process_group(backend):
        meets.append(backend)
        if backend == "nccl":
            raise RuntimeError("no GPU")

    monkeypatch.setattr(dist, "init_process_group", init_process_group)
    monkeypatch.setattr(torch, "compile", lambda model=None: model)
    monkeypatch.setattr(torch, FOLLOWER, None, raising=False)
    monkeypatch.delattr(torch, FOLLOWER)
    for name in ("torch._dynamo.callback", "torch._dynamo.utils"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    return meets


@pytest.fixture
def handler(monkeypatch):
    handler = Handler()
    monkeypatch.setattr(
        sys.modules["torch._dynamo.callback"], "callback_handler", handler, raising=False
    )
    return handler


@pytest.fixture
def start(tmp_path):
    start = TorchStart(Starting(tmp_path, 3, begun_ns=0))
    start.install()
    return start


def _compiled(count):
    sys.modules["torch._dynamo.utils"].counters = {"frames": {"total": count}}


def _told(folder, rank=3):
    return json.loads((folder / f"rank-{rank}.json").read_text())


@pytest.mark.parametrize("arguments", [(), (object(),)], ids=["torch 2.7", "torch 2.8"])
def test_compilations_within_one_another_are_one(handler, start, tmp_path, arguments):
    for each in (handler.begin, handler.begin, handler.end):
        each(*arguments)
    assert not list(tmp_path.iterdir())
    handler.end(*arguments)
    handler.begin(*arguments)
    handler.end(*arguments)

    (begun, ended), (again, _) = _told(tmp_path)["compile"]
    assert begun <= ended <= again


def test_a_failure_of_ours_while_it_compiles_does_not_reach_the_program(
    handler, start, tmp_path, monkeypatch
):
    def fails(*_):
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(torch_start, "monotonic_ns", fails)
        handler.begin()
        handler.end()
    with monkeypatch.context() as patch:
        patch.setattr(Starting, "add", fails)
        handler.begin()
        handler.end()
    start.stepped()

    assert "compile" not in _told(tmp_path)


def test_nothing_was_compiled_is_known_after_the_first_step_only(handler, start, tmp_path):
    dist.init_process_group("gloo")
    before = _told(tmp_path)
    start.stepped()

    assert "compile" not in before
    assert _told(tmp_path)["compile"] == []


def test_who_never_imported_what_compiles_compiled_nothing(start, tmp_path, monkeypatch):
    for name in ("torch._dynamo.callback", "torch._dynamo.utils"):
        monkeypatch.delitem(sys.modules, name)
    start.stepped()

    assert _told(tmp_path)["compile"] == []


def test_what_was_compiled_after_a_reset_is_not_told_as_nothing(handler, start, tmp_path):
    handler.clear()
    _compiled(1)
    start.stepped()

    assert "compile" not in _told(tmp_path)
    assert len(handler.start_callbacks) == 1


def test_after_a_reset_compile_tells_again_once(handler, start, tmp_path):
    handler.clear()
    torch.compile()
    torch.compile()
    handler.begin()
    handler.end()

    assert len(handler.start_callbacks) == len(handler.end_callbacks) == 1
    assert len(_told(tmp_path)["compile"]) == 1


def test_a_second_backend_after_one_that_failed_meets_and_then_it_loads(places, start, tmp_path):
    with pytest.raises(RuntimeError, match="no GPU"):
        dist.init_process_group("nccl")
    dist.init_process_group("gloo")

    told = _told(tmp_path)
    assert places == ["nccl", "gloo"]
    assert [end is None for _, end in told["rendezvous"]] == [False, False]
    assert told["load"][0] == [told["rendezvous"][1][1], None]


def test_the_recorder_s_rank_counts_and_children_tell_nothing_once_it_has_told(
    tmp_path, monkeypatch
):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "8")
    follow(os.environ, 5)
    # A launcher that only imports torch leaves it to the rank that it starts.
    assert FOLDER_VARIABLE in os.environ
    dist.init_process_group("gloo")

    assert FOLDER_VARIABLE not in os.environ
    assert [each.name for each in tmp_path.iterdir()] == ["rank-5.json"]
    first_step_ended()
    assert _told(tmp_path, 5)["compile"] == []


@pytest.mark.slow
def test_torch_itself_tells_what_it_compiles_and_that_a_reset_hid_it(tmp_path):
    code = """
import sys
from pathlib import Path
import torch
from lockstep.workloads.sdk.pytorch.start import TorchStart
from lockstep.workloads.measure.starting import Starting
def backend(graph, inputs):
    return graph.forward
for rank, hides in enumerate((False, True)):
    start = TorchStart(Starting(Path(sys.argv[1]), rank, begun_ns=0))
    start.install()
    fast = torch.compile(lambda x: x + 1, backend=backend)
    if hides:
        torch._dynamo.reset()
    fast(torch.ones(2))
    start.stepped()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)

    assert len(_told(tmp_path, 0)["compile"]) == 1
    assert "compile" not in _told(tmp_path, 1)
