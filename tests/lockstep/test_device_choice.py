"""`--device`: when a run takes GPUs, and when it says why not."""

from typing import Any

import pytest

from lockstep.runs import planning
from lockstep.terminal.output import CommandError
from lockstep.workloads.spec import RunSpec


def plan(**given: Any) -> RunSpec:
    usual = {"ranks_per_node": 2, "faults": [], "device": "auto", "pace": None}
    return planning.plan("gpt", nodes=1, steps=100, seed=0, token="0000", **(usual | given))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "visible", lambda: 2)
    monkeypatch.setattr(planning, "torch_build", lambda: "2.13.0")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "visible", lambda: 0)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, ("cuda", False)),
        ({"device": "cuda"}, ("cuda", False)),
        ({"device": "cpu"}, ("cpu", True)),
        ({"pace": True}, ("cpu", True)),
        ({"pace": False}, ("cuda", False)),
        ({"ranks_per_node": 4}, ("cpu", True)),
        ({"faults": ["thermal:rank=1,factor=1.5"]}, ("cpu", True)),
    ],
)
def test_a_run_takes_gpus_where_it_can(given: dict[str, Any], wanted: tuple[str, bool]) -> None:
    spec = plan(**given)

    assert wanted == (spec.device, spec.pace)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"pace": True}, "--pace on emulates devices"),
        ({"faults": ["compute:rank=1,factor=1.5"]}, "faults are injected into runs on CPU only"),
    ],
)
def test_what_a_gpu_run_cannot_do_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(CommandError, match=f"--device cuda: {why}"):
        plan(device="cuda", **given)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_cuda_is_refused_in_a_sentence() -> None:
    with pytest.raises(CommandError, match="shows no NVIDIA GPU; give --device cpu") as found:
        plan(device="cuda")

    assert 64 == found.value.code


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_auto_is_the_cpu_with_emulated_devices() -> None:
    assert ("cpu", True) == (plan().device, plan().pace)
