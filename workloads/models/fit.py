"""Whether a model divides by a layout, and whether a rank's part fits into its memory."""

from dataclasses import dataclass

from lockstep.workloads.models.configs import ConfigError, GptConfig, Style
from lockstep.workloads.spec import Layout, Training

WEIGHT_BYTES = GRADIENT_BYTES = 4
MOMENT_BYTES = 8
"""fp32 weights, gradients and AdamW's two moments."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that the fullest rank needs.

    Attributes:
        parameters: Parameters that the rank holds.
        activations: What forward keeps for backward, over the micro-batches under way.
    """

    parameters: int
    weights: int
    gradients: int
    moments: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.moments + self.activations

    def __str__(self) -> str:
        parts = {
            "weights": self.weights, "gradients": self.gradients, "AdamW": self.moments,
            "activations": self.activations,
        }  # fmt: skip
        sizes = " + ".join(f"{name} {size / GIB:.2f}" for name, size in parts.items())
        return f"{self.parameters:,} parameters: {sizes} = {self.total / GIB:.2f} GiB"


def check(config: GptConfig, layout: Layout, training: Training) -> None:
    """Refuse what does not divide.

    Raises:
        ConfigError: With the numbers, and what would do.
    """
    tp, stages = layout.tp, layout.pp * training.virtual_stages
    for what, size in (
        ("heads of keys and values", config.kv_heads),
        ("the feed-forward's width", config.ffn),
    ):
        if size % tp:
            raise ConfigError(f"{what} {size} cannot be split over tp {tp}")
    if config.vocabulary % tp:
        padded = -(-config.vocabulary // (128 * tp)) * 128 * tp
        raise ConfigError(
            f"vocabulary {config.vocabulary} cannot be split over tp {tp};"
            f" pad it as Megatron does: --vocabulary {padded}"
        )
    if training.sequence_parallel and config.sequence % tp:
        raise ConfigError(f"sequence {config.sequence} cannot be split over tp {tp}")
    if training.data == "copy" and config.sequence % 2:
        raise ConfigError(f"sequence {config.sequence} is odd; copy repeats one half of it")
    if stages > config.layers:
        raise ConfigError(
            f"{stages} pipeline stages (pp {layout.pp} x {training.virtual_stages}) are more than"
            f" the {config.layers} layers of {config.name}; give fewer stages or a deeper --model"
        )
    if training.virtual_stages > 1 and layout.pp == 1:
        raise ConfigError("--virtual-stages needs a pipeline: --pp 2 or more")
    if layout.pp > 1 and training.micro_batches < stages:
        raise ConfigError(
            f"{training.micro_batches} micro-batches are fewer than {stages} pipeline stages;"
            f" give --micro-batches {stages} or more"
        )
    if training.virtual_stages > 1 and training.micro_batches % layout.pp:
        raise ConfigError(
            f"{training.micro_batches} micro-batches cannot be interleaved over pp {layout.pp}"
        )


def memory_plan(config: GptConfig, layout: Layout, training: Training) -> MemoryPlan:
    """What the fullest rank needs.

    Activations as in Korthikanti et al. 2022 (arXiv 2205.05198), equation 2, without the attention
    scores, which fused attention does not keep; in fp32, twice their bytes. 1F1B keeps at most as
    many micro-batches as there are stages; interleaved, 1 + (pp - 1) / (pp x virtual stages) times
    as much. A sharded optimizer has moments and the mean gradient
    of its part only, but adds up gradients whole.
    """
    parameters = max(
        stage_parameters(config, layout, training.virtual_stages, stage)
        for stage in range(layout.pp)
    )
    shards = layout.dp if training.sharded_optimizer else 1
    part = -(-parameters // shards)
    layers = -(-config.layers // layout.pp)
    elements = config.sequence * training.micro_batch * config.hidden
    split = layout.tp if training.sequence_parallel else 1
    kept = 2 if training.recompute else 10 / split + 24 / layout.tp
    under_way: float = min(layout.pp, training.micro_batches)
    if training.virtual_stages > 1:
        under_way *= 1 + (layout.pp - 1) / (layout.pp * training.virtual_stages)
    logits = 4 * config.sequence * training.micro_batch * config.vocabulary // layout.tp
    activations = round(2 * kept * elements * layers * under_way) + 2 * logits
    return MemoryPlan(
        parameters,
        WEIGHT_BYTES * parameters,
        GRADIENT_BYTES * (parameters + (part if shards > 1 else 0)),
        MOMENT_BYTES * part,
        activations,
    )


def stage_parameters(config: GptConfig, layout: Layout, chunks: int, stage: int) -> int:
    """Parameters that one rank of a pipeline rank holds, exactly."""
    stages = layout.pp * chunks
    held = 0
    for chunk in range(chunks):
        index = chunk * layout.pp + stage
        first, last = config.layers * index // stages, config.layers * (index + 1) // stages
        held += (last - first) * layer_parameters(config, layout.tp)
        if index == 0:
            held += config.embedding_parameters // layout.tp
            held += config.sequence * config.hidden if config.style is Style.GPT3 else 0
        if index == stages - 1:
            held += config.norm_parameters
            if stages > 1 or not config.tied:
                held += config.embedding_parameters // layout.tp
    return held


def layer_parameters(config: GptConfig, tp: int) -> int:
    """Parameters of one layer on one rank: norms and the biases after a sum are on every rank."""
    whole = 2 * config.norm_parameters
    if config.style is Style.GPT3:
        whole += 2 * config.hidden
    return (config.layer_parameters - whole) // tp + whole


def require(layout: Layout, training: Training, available: int | None) -> None:
    """Refuse a run that cannot be.

    Args:
        available: Bytes that a rank may use; None = unknown.

    Raises:
        ConfigError: It does not divide, or does not fit.
    """
    config = training.config
    check(config, layout, training)
    plan = memory_plan(config, layout, training)
    if available is not None and plan.total > available:
        raise ConfigError(
            f"{config.name} with dp {layout.dp}, tp {layout.tp}, pp {layout.pp} does not fit:"
            f" a rank has {available / GIB:.2f} GiB and needs {plan}"
        )
