"""MLBench's tasks 1a and 1b: ResNet-20 to 56 on CIFAR-10, ResNet-50 on ImageNet, or on stripes."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.workloads.data import cifar, gratings, imagenet
from lockstep.workloads.data.images import ImageSet
from lockstep.workloads.loop.goals import MLBENCH
from lockstep.workloads.models.image_configs import (
    IMAGE_CONFIGS,
    ImageConfig,
    resized,
)
from lockstep.workloads.spec import RunSpec, SpecError, Training, one_of

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context, Trainable

SYNTHETIC = "synthetic"
SYNTHETIC_SIDES = {"resnet50": 64}
"""Pixels; 224 would take a CPU a second an image."""
MOST_BYTES = 48 << 20
"""Of synthetic images to learn from; a longer run sees them again, shifted and mirrored."""
VALIDATION_BYTES = 8 << 20
VALIDATION_IMAGES = 1000
MARGIN = 0.03
"""How far below the best possible accuracy 150 steps of 2 ranks and 16 images may end."""
RECIPE = (
    "MLBench 1a: SGD, momentum 0.9 without Nesterov (its documentation has Nesterov, its code has"
    " not), weight decay 1e-4, rate x workers after log2(workers) warm-up epochs, halved on"
    " plateaus; MLBench has 128 images a worker and a rate of 0.02, and only here a run on"
    " synthetic images ends with a rate of 0"
)


class ResnetTask:
    """See tasks.Task."""

    name = "resnet"
    defaults = Training(
        model="resnet20", data=SYNTHETIC, micro_batch=8, learning_rate=0.02, eval_every=100
    )
    options = frozenset(
        {
            "model", "data", "micro_batch", "learning_rate", "eval_every", "goal", "stop_at_goal",
            "time_budget",
        }
    )  # fmt: skip
    metrics = frozenset({"accuracy", "loss"})
    goals = MLBENCH["1a"]
    formula = "convolutions"
    sample = "images"

    def per_step(self, spec: RunSpec) -> int:
        """See Task."""
        return spec.batch

    def check(self, spec: RunSpec) -> RunSpec:
        """See Task; looks at the user's files, but at the first images alone of a folder."""
        training, layout = spec.training, spec.layout
        one_of("model", training.model, tuple(IMAGE_CONFIGS))
        if layout.tp * layout.pp > 1:
            raise SpecError(
                f"resnet is data parallel alone: --tp {layout.tp} and --pp {layout.pp} must be 1"
            )
        folder = Path(training.data)
        if training.data != SYNTHETIC:
            if IMAGE_CONFIGS[training.model].bottleneck:
                imagenet.check(folder)
            _halves(spec, folder)
        return replace(spec, training=replace(training, micro_batches=1))

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """See Task: the folder of images."""
        if spec.training.data != SYNTHETIC:
            return Path(spec.training.data)
        folder, side = workspace / "data" / "resnet", _config(spec).side
        record = 3 * side * side + 1
        training = min(spec.steps * spec.batch, MOST_BYTES // record)
        validation = min(VALIDATION_IMAGES, VALIDATION_BYTES // record)
        gratings.write_folder(folder, training, validation, side, spec.seed)
        return folder

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """See Task."""
        synthetic, config = spec.training.data == SYNTHETIC, _config(spec)
        facts: dict[str, Any] = {
            "data": SYNTHETIC if synthetic else spec.training.data,
            "parameters": config.parameters,
            "side": config.side,
            "formula": self.formula,
            "recipe": RECIPE,
        }
        if synthetic:
            facts["optimum"] = {"accuracy": gratings.best_accuracy(), "margin": MARGIN}
        return facts

    def set_up(self, context: "Context") -> "Trainable[Any]":
        """See Task."""
        from lockstep.workloads.models.image_training import ImageTraining

        spec = context.spec
        training, validation = _halves(spec, context.data)
        cools = spec.training.data == SYNTHETIC
        return ImageTraining(context, _config(spec), training, validation, cools=cools)


def _config(spec: RunSpec) -> ImageConfig:
    """The network for the images of the run."""
    config, data = IMAGE_CONFIGS[spec.training.model], spec.training.data
    if data == SYNTHETIC:
        return resized(config, SYNTHETIC_SIDES.get(config.name, config.side), gratings.CLASSES)
    if config.bottleneck:
        return resized(config, config.side, len(imagenet.classes(Path(data), "train")))
    return config


def _halves(spec: RunSpec, folder: Path) -> tuple[ImageSet, ImageSet]:
    """Images to learn from, and to validate on.

    Raises:
        DataError: They cannot be read.
    """
    config = _config(spec)
    if config.bottleneck and spec.training.data != SYNTHETIC:
        return imagenet.ImageFolder(folder, "train"), imagenet.ImageFolder(folder, "val")
    # Stripes end at no edge: a shift would show what no image to validate on has.
    padding = 0 if spec.training.data == SYNTHETIC else cifar.PADDING
    return (
        cifar.CifarImages(folder, cifar.TRAINING_FILES, config.side, padding),
        cifar.CifarImages(folder, cifar.VALIDATION_FILES, config.side),
    )


TASK = ResnetTask()
