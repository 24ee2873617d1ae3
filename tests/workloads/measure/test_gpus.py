"""Whether a run may have GPUs, and what bf16 products do to a model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lockstep.workloads.loop.rank import Accelerator, RankJob, accelerator
from lockstep.workloads.measure.gpus import visible, why_not
from lockstep.workloads.models.configs import TINY
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.spec import Layout, RunSpec


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, 3), ({"CUDA_VISIBLE_DEVICES": "1"}, 1), ({"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, 3),
     ({"CUDA_VISIBLE_DEVICES": ""}, 0), ({"CUDA_VISIBLE_DEVICES": "-1"}, 0)],
)  # fmt: skip
def test_gpus_are_counted_by_their_device_files(
    dev: Path, environ: dict[str, str], wanted: int
) -> None:
    assert wanted == visible(dev, environ)


@pytest.mark.parametrize(
    ("ranks", "gpus", "build", "wanted"),
    [
        (1, 0, "2.13.0", "this machine shows no NVIDIA GPU"),
        (1, 2, "2.13.0+cpu", "torch 2.13.0+cpu is built without CUDA"),
        (1, 2, None, "torch is not installed"),
        (4, 2, "2.13.0", "4 ranks need a GPU each, and this machine shows 2"),
        (2, 2, "2.13.0", None),
        (2, 2, "2.13.0+cu129", None),
    ],
)
def test_what_keeps_ranks_from_gpus_is_named(
    ranks: int, gpus: int, build: str | None, wanted: str | None
) -> None:
    assert wanted == why_not(ranks, gpus, build)


def test_on_cpu_nothing_is_copied_and_nothing_is_cast() -> None:
    spec = RunSpec("run", "gpt", Layout(1, 1, 1), 10, 0)
    here = accelerator(spec, 0)
    value = torch.tensor(2.0)

    assert Accelerator(torch.device("cpu")) == here
    assert ("gloo", "") == (here.backend, here.uuid)
    assert value.data_ptr() == here.fetched(value).data_ptr()


def test_every_rank_of_a_gpu_run_has_its_own_gpu() -> None:
    spec = RunSpec("run", "gpt", Layout(2, 2, 4), 10, 0, device="cuda", pace=False)

    assert [0, 1, 2, 3] == [accelerator(spec, rank).device.index for rank in range(4)]
    for device in ("cuda", "cpu"):
        assert f"--device {device}" in replace(spec, device=device).command(faults=False, taken=())


@pytest.mark.parametrize(("node", "places"), [(None, [0, 1, 2, 3]), ("n7", [0, 1, 0, 1])])
def test_a_rank_has_a_gpu_of_its_own_machine(
    tmp_path: Path, node: str | None, places: list[int]
) -> None:
    spec = RunSpec("run", "gpt", Layout(2, 2, 4), 10, 0, device="cuda", pace=False)
    jobs = [
        RankJob(spec, rank, tmp_path, "", tmp_path, tmp_path, 2, 0, node=node) for rank in range(4)
    ]

    assert places == [job.local_index for job in jobs]


def test_a_batch_of_anything_but_arrays_is_refused_on_any_device() -> None:
    here = Accelerator(torch.device("cpu"))
    rows, labels = here.batch((np.ones((2, 3), np.float32), np.zeros(2, np.int64)))

    assert ((2, 3), (2,)) == (tuple(rows.shape), tuple(labels.shape))
    with pytest.raises(TypeError, match="not dict"):
        here.batch({"rows": np.ones(2)})


def test_products_in_bf16_leave_weights_gradients_and_outputs_in_fp32() -> None:
    model = Gpt(TINY)
    initialize(model, 1)
    ids = torch.randint(TINY.vocabulary, (2, TINY.sequence), generator=torch.manual_seed(2))
    exact = model(ids)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(ids)
    torch.autograd.backward(model.mean_loss(rounded, ids))

    assert torch.float32 == rounded.dtype
    assert {torch.float32} == {p.grad.dtype for p in model.parameters() if p.grad is not None}
    assert 0 < (rounded - exact).norm() / exact.norm() < 0.02
