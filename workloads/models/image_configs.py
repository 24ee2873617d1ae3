"""Sizes of the residual networks for images, with their parameters and FLOPs counted from them."""

from dataclasses import dataclass, replace

EXPANSION = 4
"""A bottleneck block gives four times its width (He et al. 2015, arXiv 1512.03385, table 1)."""
BACKWARD_AND_FORWARD = 3
"""Gradients by input and by weight cost a forward pass each."""


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """A residual network.

    Attributes:
        blocks: Residual blocks of each stage; stages after the first halve the image's side.
        widths: Channels of each stage; a bottleneck gives EXPANSION times as many.
        bottleneck: Blocks of 1x1, 3x3, 1x1 convolutions with projection shortcuts (option B), else
            of two 3x3 with shortcuts that have no parameters (option A).
        side: Pixels of an image's side, of which `parameters` knows nothing.
        classes: What an image can be.
    """

    name: str
    blocks: tuple[int, ...]
    widths: tuple[int, ...]
    bottleneck: bool
    side: int
    classes: int

    @property
    def expansion(self) -> int:
        """Channels that a block gives over its width."""
        return EXPANSION if self.bottleneck else 1

    @property
    def features(self) -> int:
        """Numbers that the classifier sees of an image."""
        return self.widths[-1] * self.expansion

    @property
    def parameters(self) -> int:
        """Weights of convolutions and classifier, and two numbers a channel of each norm."""
        convolutions = sum(
            kernel * kernel * inputs * outputs + 2 * outputs
            for kernel, inputs, outputs, _ in self.convolutions()
        )
        return convolutions + (self.features + 1) * self.classes

    @property
    def flops_per_image(self) -> float:
        """Forward and backward FLOPs: 2 for each multiply-add of convolutions and classifier.

        Three times the forward pass; norms, activations and pooling are not counted.
        """
        multiply_adds = sum(
            kernel * kernel * inputs * outputs * side * side
            for kernel, inputs, outputs, side in self.convolutions()
        )
        return 2.0 * BACKWARD_AND_FORWARD * (multiply_adds + self.features * self.classes)

    def convolutions(self) -> list[tuple[int, int, int, int]]:
        """(kernel, input channels, output channels, side of the output) of each convolution."""
        if self.bottleneck:
            side = halved(halved(self.side))  # the stem's stride, then its pooling's
            convolutions = [(7, 3, self.widths[0], halved(self.side))]
        else:
            side = self.side
            convolutions = [(3, 3, self.widths[0], side)]
        inputs = self.widths[0]
        for stage, (count, width) in enumerate(zip(self.blocks, self.widths, strict=True)):
            for block in range(count):
                before, outputs = side, width * self.expansion
                if stage and not block:
                    side = halved(side)
                if self.bottleneck:  # version 1.5: the 3x3 convolution has the stride
                    convolutions.append((1, inputs, width, before))
                    convolutions += [(3, width, width, side), (1, width, outputs, side)]
                    convolutions += [(1, inputs, outputs, side)] if not block else []
                else:
                    convolutions += [(3, inputs, width, side), (3, width, width, side)]
                inputs = outputs
        return convolutions


def halved(side: int) -> int:
    """What a stride of 2 leaves of a side, where the kernel reaches over the edge."""
    return -(-side // 2)


def resized(config: ImageConfig, side: int, classes: int) -> ImageConfig:
    """The same network for other images."""
    return replace(config, side=side, classes=classes)


def _cifar(blocks: int) -> ImageConfig:
    """6n + 2 layers (He et al. 2015, section 4.2)."""
    name = f"resnet{6 * blocks + 2}"
    return ImageConfig(name, (blocks,) * 3, (16, 32, 64), bottleneck=False, side=32, classes=10)


IMAGE_CONFIGS = {
    config.name: config
    for config in (
        *map(_cifar, (3, 5, 7, 9)),
        ImageConfig(
            "resnet50", (3, 4, 6, 3), (64, 128, 256, 512), bottleneck=True, side=224, classes=1000
        ),
    )
}
"""By name: those of CIFAR-10 (He et al. 2015, section 4.2) and version 1.5 for ImageNet."""
