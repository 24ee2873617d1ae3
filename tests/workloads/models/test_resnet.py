"""The networks have the sizes and the arithmetic that their papers and peers give them."""

import pytest
import torch
from torch import nn

from lockstep.workloads.models.image_configs import IMAGE_CONFIGS, resized
from lockstep.workloads.models.image_training import PlateauRate
from lockstep.workloads.models.resnet import Block, ResNet, initialize, option_a

NAMES = sorted(IMAGE_CONFIGS)
PARAMETERS = {
    "resnet20": 269_722, "resnet32": 464_154, "resnet44": 658_586, "resnet56": 853_018,
    "resnet50": 25_557_032,
}  # fmt: skip
"""akamaster/pytorch_resnet_cifar10 gives 0.27, 0.46, 0.66 and 0.85 M; torchvision the last."""


@pytest.mark.parametrize("name", NAMES)
def test_the_parameters_are_as_many_as_published(name: str) -> None:
    config = IMAGE_CONFIGS[name]
    with torch.device("meta"):
        model = ResNet(config)

    assert PARAMETERS[name] == sum(p.numel() for p in model.parameters())
    assert PARAMETERS[name] == config.parameters


@pytest.mark.parametrize(("blocks", "name"), [(3, 20), (5, 32), (7, 44), (9, 56)])
def test_cifar_parameters_are_those_of_the_papers_table(blocks: int, name: int) -> None:
    """Counted by layer: a stem, 2n convolutions a stage, a classifier; shortcuts have none."""
    total = 3 * 16 * 9 + 2 * 16 + (64 * 10 + 10)
    for before, width in ((16, 16), (16, 32), (32, 64)):
        total += before * width * 9 + (2 * blocks - 1) * width * width * 9 + 2 * blocks * 2 * width

    assert total == IMAGE_CONFIGS[f"resnet{name}"].parameters


@pytest.mark.parametrize(("name", "side"), [("resnet20", 32), ("resnet56", 36), ("resnet50", 64)])
def test_flops_are_those_that_the_layers_see(name: str, side: int) -> None:
    config = resized(IMAGE_CONFIGS[name], side, 7)
    with torch.device("meta"):
        model = ResNet(config).eval()
        counted = [0]

        def count(layer: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
            weights = layer.weight
            assert isinstance(weights, torch.Tensor)
            places = output[0].numel() // weights.shape[0]
            counted[0] += weights.numel() * places

        for layer in model.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.register_forward_hook(count)
        logits = model(torch.empty(1, 3, side, side))

    assert (1, 7) == logits.shape
    assert config.flops_per_image == 2 * 3 * counted[0]


def test_resnet50_has_the_multiply_adds_of_torchvision() -> None:
    assert 4.09 == pytest.approx(IMAGE_CONFIGS["resnet50"].flops_per_image / 6e9, abs=0.005)


def test_option_a_takes_every_second_pixel_and_adds_channels_of_zeros() -> None:
    x = torch.arange(2 * 4 * 4.0).reshape(1, 2, 4, 4)

    found = option_a(x, added=2, stride=2)

    assert [[0.0, 2.0], [8.0, 10.0]] == found[0, 1].tolist()
    assert [[16.0, 18.0], [24.0, 26.0]] == found[0, 2].tolist()
    assert 0.0 == found[0, 0].abs().sum() + found[0, 3].abs().sum()


def test_version_one_and_a_half_halves_the_side_in_the_3x3_convolution() -> None:
    with torch.device("meta"):
        model = ResNet(IMAGE_CONFIGS["resnet50"])
    block = model.blocks[3]  # the first of the second stage
    assert isinstance(block, Block)

    layers = [layer for layer in block.convolutions if isinstance(layer, nn.Conv2d)]

    assert [(1, 1), (3, 2), (1, 1)] == [(one.kernel_size[0], one.stride[0]) for one in layers]


def test_weights_come_from_the_seed_alone() -> None:
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(models))
        models.append(ResNet(IMAGE_CONFIGS["resnet20"]))
        initialize(models[-1], seed)
    same, again, other = (
        torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models
    )

    assert torch.equal(same, again)
    assert not torch.equal(same, other)


def test_convolutions_begin_with_the_deviation_of_their_inputs() -> None:
    model = ResNet(IMAGE_CONFIGS["resnet20"])
    initialize(model, 1)
    last = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)][-1]

    assert (2 / (64 * 9)) ** 0.5 == pytest.approx(last.weight.std().item(), rel=0.02)


# The learning rate follows MLBench's: up with the workers, halved where the loss stands still.


def test_one_worker_has_one_rate() -> None:
    rate = PlateauRate(0.02, 1, epoch=10)
    for step in range(50):
        rate.observe(step, 1.0)

    assert 0.02 == rate(0) == rate(100)
    assert 0 == rate.cuts


@pytest.mark.parametrize(("workers", "epochs"), [(2, 1), (3, 1), (4, 2), (8, 3), (9, 3)])
def test_the_warm_up_takes_log2_of_the_workers_epochs(workers: int, epochs: int) -> None:
    rate = PlateauRate(0.02, workers, epoch=100)

    assert 0.02 == rate(0)
    assert 0.02 * (1 + (workers - 1) / 2) == pytest.approx(rate(50 * epochs))
    assert rate(100 * epochs - 1) < 0.02 * workers
    assert 0.02 * workers == rate(100 * epochs)


def test_two_evaluations_that_are_no_better_halve_the_rate_down_to_that_of_one_worker() -> None:
    rate = PlateauRate(0.02, 4, epoch=1)
    rates = []
    for step, loss in enumerate([9.0, 1.0, 0.995, 0.5, 0.5, 0.495, 0.6, 0.7, 0.8, 0.9], start=2):
        rate.observe(step, loss)
        rates.append(rate(step + 1))

    # 0.995 is one that is no better; 0.5 and 0.495 are two; then pairs until the least.
    assert [0.08] * 5 + [0.04] * 2 + [0.02] * 3 == pytest.approx(rates)
    assert 2 == rate.cuts


def test_losses_of_the_warm_up_say_nothing() -> None:
    rate = PlateauRate(0.02, 2, epoch=100)
    for step in range(9, 90, 10):
        rate.observe(step, 0.1)

    assert 0.04 == rate(100)


def test_a_short_run_cools_down_over_its_last_third() -> None:
    rate = PlateauRate(0.02, 1, epoch=1, cooled_by=90)

    assert [0.02, 0.02, 0.01, 0.02 / 30, 0.0] == pytest.approx(
        [rate(step) for step in (0, 60, 75, 89, 90)]
    )
