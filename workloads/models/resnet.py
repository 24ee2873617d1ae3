"""Residual networks for images: those of CIFAR-10 and version 1.5 of ResNet-50, by their config.

He et al. 2015 (arXiv 1512.03385). Weights begin as akamaster/pytorch_resnet_cifar10's and
torchvision's: normal by He et al. 2015 (arXiv 1502.01852) over the inputs and over the outputs.
"""

import zlib
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from lockstep.workloads.models.image_configs import ImageConfig

Shortcut = Callable[[torch.Tensor], torch.Tensor]


class ResNet(nn.Module):
    """Images (batch, 3, side, side) to logits (batch, classes)."""

    def __init__(self, config: ImageConfig) -> None:
        super().__init__()
        self.config = config
        width = config.widths[0]
        stem: list[nn.Module] = [
            _convolution(3, width, 7, 2) if config.bottleneck else _convolution(3, width, 3)
        ]
        stem += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        if config.bottleneck:
            stem.append(nn.MaxPool2d(3, stride=2, padding=1))
        self.stem = nn.Sequential(*stem)
        self.blocks = nn.Sequential(*_blocks(config))
        self.output = nn.Linear(config.features, config.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of each class."""
        features = self.blocks(self.stem(images)).mean(dim=(2, 3))
        logits: torch.Tensor = self.output(features)
        return logits


class Block(nn.Module):
    """Convolutions with norms, added to a shortcut."""

    def __init__(self, convolutions: nn.Sequential, shortcut: Shortcut) -> None:
        super().__init__()
        self.convolutions = convolutions
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of the next block."""
        return functional.relu(self.convolutions(x) + self.shortcut(x))


def option_a(x: torch.Tensor, added: int, stride: int) -> torch.Tensor:
    """Every second pixel, and `added` channels of zeros, half before and half after."""
    taken = x[:, :, ::stride, ::stride]
    return functional.pad(taken, (0, 0, 0, 0, added // 2, added - added // 2))


@torch.no_grad()
def initialize(model: ResNet, seed: int) -> None:
    """Weights from the seed and the parameter's name alone: equal on every rank."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            # The generator sees the lower 32 bits of its seed alone.
            dice = torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}".encode()))
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(
                    module.weight, mode="fan_out" if model.config.bottleneck else "fan_in",
                    nonlinearity="relu", generator=dice,
                )  # fmt: skip
            else:
                # torch's own: uniform within 1 / sqrt(inputs), weights and biases.
                bound = module.in_features**-0.5
                for parameter in module.parameters():
                    nn.init.uniform_(parameter, -bound, bound, generator=dice)


def _blocks(config: ImageConfig) -> list[nn.Module]:
    blocks: list[nn.Module] = []
    inputs = config.widths[0]
    for stage, (count, width) in enumerate(zip(config.blocks, config.widths, strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            outputs = width * config.expansion
            make = _bottleneck if config.bottleneck else _basic
            blocks.append(make(inputs, width, outputs, stride))
            inputs = outputs
    return blocks


def _basic(inputs: int, width: int, outputs: int, stride: int) -> Block:
    """Two 3x3 convolutions."""
    convolutions = nn.Sequential(
        _convolution(inputs, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        _convolution(width, outputs, 3), nn.BatchNorm2d(outputs),
    )  # fmt: skip
    if stride == 1 and inputs == outputs:
        return Block(convolutions, nn.Identity())
    return Block(convolutions, partial(option_a, added=outputs - inputs, stride=stride))


def _bottleneck(inputs: int, width: int, outputs: int, stride: int) -> Block:
    """1x1, 3x3, 1x1; version 1.5 has the stride in the 3x3."""
    convolutions = nn.Sequential(
        _convolution(inputs, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        _convolution(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        _convolution(width, outputs, 1), nn.BatchNorm2d(outputs),
    )  # fmt: skip
    if stride == 1 and inputs == outputs:
        return Block(convolutions, nn.Identity())
    projection = nn.Sequential(_convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
    return Block(convolutions, projection)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
