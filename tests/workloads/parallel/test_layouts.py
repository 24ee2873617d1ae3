"""Every layout computes what one rank computes: gradients, norm, loss; and the tests can fail."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import GROUPS
from lockstep.workloads.models.configs import TINY, TINY_LLAMA, GptConfig
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Collective, Comm
from lockstep.workloads.parallel.gradients import Gradients
from lockstep.workloads.parallel.pipeline import Pipeline, build
from lockstep.workloads.parallel.tensor import TensorParallel, shard_dimension
from lockstep.workloads.spec import Layout
from tests.workloads.ranks import recorder_of

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
FAMILIES = {
    "gpt3": replace(TINY, layers=4, hidden=32, heads=8, kv_heads=8, ffn=128, sequence=16),
    "llama": replace(TINY_LLAMA, layers=4, hidden=64, heads=16, kv_heads=8, ffn=96, sequence=16),
}
FAMILIES["deep"] = replace(FAMILIES["gpt3"], layers=8)
BATCH = 8
FACTORISATIONS = [
    (pp, world // (pp * tp), tp)
    for world in (1, 2, 4, 8)
    for pp in (1, 2, 4, 8)
    for tp in (1, 2, 4, 8)
    if world % (pp * tp) == 0 and pp <= 4
] + [(8, 1, 1)]
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Rank:
    """What one rank of a test has."""

    layout: Layout
    rank: int
    groups: mesh.Mesh
    comm: Comm
    ring: Path


def joined(layout: Layout, rank: int, folder: Path) -> Rank:
    recorder = recorder_of(rank, layout, folder)
    path = recorder.writer.path
    groups = mesh.build(layout)
    return Rank(layout, rank, groups, Comm(recorder, groups.groups), path)


def batch(config: GptConfig) -> torch.Tensor:
    dice = torch.Generator().manual_seed(5)
    return torch.randint(config.vocabulary, (BATCH, config.sequence + 1), generator=dice)


def computed(
    me: Rank, config: GptConfig, *, sequence: bool, chunks: int = 1, recompute: bool = False
) -> tuple[float | None, float, dict[str, torch.Tensor]]:
    """(loss, norm, gradient by name, shards put together) after one backward pass."""
    layout = me.layout
    dp, pp, tp = layout.coordinates(me.rank)
    parallel = TensorParallel(layout.tp, tp, sequence and layout.tp > 1, me.comm)
    stages = build(config, parallel, layout.pp, pp, chunks, recompute=recompute)
    for stage in stages:
        initialize(stage, 1, parallel)
    mine = batch(config).chunk(layout.dp)[dp]
    ids, targets = mine[:, :-1], mine[:, 1:]
    micro_batches = 1 if layout.pp == 1 else BATCH // layout.dp
    gradients = Gradients(
        stages, parallel, me.groups, me.comm, backwards=micro_batches, bucket_bytes=20_000
    )
    gradients.zero()
    loss: torch.Tensor | None
    if layout.pp == 1:
        loss = stages[0].mean_loss(stages[0](ids), targets)
        torch.autograd.backward(loss)
    else:
        pipeline = Pipeline(
            stages, parallel, me.comm, me.groups.groups["pp"],
            micro_batches=micro_batches, micro_batch=1,
        )  # fmt: skip
        loss = pipeline.step(ids, targets)
    gradients.finish()
    found = {
        name: whole(parameter, parallel).clone()
        for stage in stages
        for name, parameter in stage.named_parameters()
    }
    norm = gradients.clip(0.1).item()
    return None if loss is None else loss.item(), norm, found


def whole(parameter: torch.nn.Parameter, parallel: TensorParallel) -> torch.Tensor:
    grad, dimension = parameter.grad, shard_dimension(parameter)
    assert grad is not None
    if dimension is None or parallel.size == 1:
        return grad
    parts = [torch.empty_like(grad) for _ in range(parallel.size)]
    assert parallel.comm is not None
    dist.all_gather(parts, grad.contiguous(), group=parallel.comm._groups["tp"])
    return torch.cat(parts, dimension)


def worst_error(
    config: GptConfig, serial: dict[str, torch.Tensor], found: dict[str, torch.Tensor]
) -> float:
    """The largest error of a gradient, over the largest value of its tensor."""
    errors = []
    for name, gradient in found.items():
        tied = config.tied and name == "output.weight"
        wanted = serial["tokens.weight" if tied else name]
        error = (gradient.reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()
        errors.append(error.item())
    return max(errors)


@pytest.fixture(scope="module")
def serial() -> dict[str, tuple[float, float, dict[str, torch.Tensor]]]:
    """Loss, norm and gradients of each family without any parallelism of ours."""
    torch.set_num_threads(1)
    answers = {}
    for family, config in FAMILIES.items():
        model = Gpt(config)
        initialize(model, 1)
        ids = batch(config)
        logits = model(ids[:, :-1]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:].t().flatten())
        torch.autograd.backward(loss)
        gradients = {
            name: parameter.grad
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        }
        norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients.values()))
        answers[family] = (loss.item(), norm, gradients)
    return answers


def variants(pp: int, tp: int) -> Iterator[dict[str, Any]]:
    yield {"sequence": tp > 1}
    if tp > 1:
        yield {"sequence": False, "recompute": True}
    if pp == 2:
        yield {"sequence": tp > 1, "chunks": 2}


@pytest.mark.sweep(sample=3)
@pytest.mark.parametrize(("pp", "dp", "tp"), FACTORISATIONS)
def test_every_layout_computes_what_one_rank_computes(
    forked: Forked, tmp_path: Path, serial: Any, pp: int, dp: int, tp: int
) -> None:
    layout = Layout(1, pp * dp * tp, dp, tp, pp)
    families = ("deep",) if pp == 8 else ("gpt3", "llama")
    cases = [
        (family, FAMILIES[family], options) for family in families for options in variants(pp, tp)
    ]

    def work(rank: int) -> Any:
        me = joined(layout, rank, tmp_path)
        answers = []
        for family, config, options in cases:
            loss, norm, found = computed(me, config, **options)
            error = worst_error(config, serial[family][2], found)
            answers.append((loss, norm, error))
        return answers

    answers = forked(layout.world, work)

    for index, (family, _, _) in enumerate(cases):
        wanted_loss, wanted_norm, _ = serial[family]
        losses = [rank[index][0] for rank in answers if rank[index][0] is not None]
        assert wanted_loss == pytest.approx(sum(losses) / len(losses), rel=TOLERANCE)
        assert wanted_norm == pytest.approx(answers[0][index][1], rel=TOLERANCE)
        assert max(rank[index][2] for rank in answers) <= TOLERANCE


def test_a_dropped_all_reduce_is_noticed(forked: Forked, tmp_path: Path, serial: Any) -> None:
    true = Collective.all_reduce

    def forgetful(self: Collective, tensor: torch.Tensor, *more: Any) -> None:
        if "mlp.2" not in self._name:
            true(self, tensor, *more)

    def broken() -> None:
        Collective.all_reduce = forgetful  # type: ignore[method-assign]

    errors = _errors(forked, tmp_path, serial, Layout(1, 2, 1, 2, 1), broken)

    assert min(errors) > 100 * TOLERANCE


def test_a_swapped_shard_is_noticed(forked: Forked, tmp_path: Path, serial: Any) -> None:
    true = initialize

    def swapped(model: Gpt, seed: int, parallel: TensorParallel) -> None:
        true(model, seed, replace(parallel, rank=1 - parallel.rank))

    def broken() -> None:
        computed.__globals__["initialize"] = swapped

    errors = _errors(forked, tmp_path, serial, Layout(1, 2, 1, 2, 1), broken)

    assert min(errors) > 100 * TOLERANCE


def _errors(
    forked: Forked, folder: Path, serial: Any, layout: Layout, broken: Callable[[], None]
) -> list[float]:
    """Of each rank, in whose own process something is `broken` first."""
    config = FAMILIES["gpt3"]

    def work(rank: int) -> float:
        broken()
        found = computed(joined(layout, rank, folder), config, sequence=False)[2]
        return worst_error(config, serial["gpt3"][2], found)

    return forked(layout.world, work)


@pytest.mark.parametrize(("sequence", "wanted"), [(False, 4 * 4 + 4), (True, 8 * 4 + 7)])
def test_a_step_communicates_as_often_as_the_arithmetic_says(
    forked: Forked, tmp_path: Path, sequence: bool, wanted: int
) -> None:
    """Per layer 2 forward and 2 backward; embedding, output, two of the loss.

    Sequence parallel has an all-gather and a reduce-scatter for each all-reduce of a layer; the
    embedding's and the output's come twice, norms are summed once; and clipping is one more.
    """
    layout = Layout(1, 2, 1, 2, 1)

    def work(rank: int) -> int:
        me = joined(layout, rank, tmp_path)
        computed(me, FAMILIES["gpt3"], sequence=sequence)
        raw = me.ring.read_bytes()[ring.GROUP_COUNTERS_OFFSET :]
        entries = list(ring.GROUP_COUNTERS.iter_unpack(raw[: 8 * ring.GROUP_COUNTERS.size]))
        return int(entries[GROUPS.index("tp")][1])

    assert [wanted + 1, wanted + 1] == forked(2, work)
