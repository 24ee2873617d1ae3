"""GPT-3 and Llama from one file: pre-norm blocks of attention and feed-forward, over stages.

Hidden states are (sequence, batch, hidden). A whole model is one stage with all layers.
"""

import zlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lockstep.workloads.models.configs import GptConfig, Style
from lockstep.workloads.parallel.tensor import (
    SERIAL,
    ColumnParallel,
    Enter,
    RowParallel,
    TensorParallel,
    VocabularyParallelEmbedding,
    VocabularyParallelLoss,
    shard_dimension,
)

NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Part:
    """Which layers a stage holds: `first` inclusive to `last` exclusive, and the ends."""

    first: int
    last: int
    layers: int

    @property
    def has_embedding(self) -> bool:
        """Whether the stage takes token ids."""
        return self.first == 0

    @property
    def has_output(self) -> bool:
        """Whether the stage gives logits."""
        return self.last == self.layers


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions (arXiv 2104.09864): (sequence, batch, heads, size), halves as pairs."""
    one, two = x.chunk(2, dim=-1)
    return torch.cat((one * cosine - two * sine, two * cosine + one * sine), dim=-1)


def rotary_table(config: GptConfig) -> torch.Tensor:
    """Cosine and sine of every position and frequency, (2, sequence, 1, 1, head size / 2)."""
    half = torch.arange(0, config.head_size, 2, dtype=torch.float64) / config.head_size
    angles = torch.outer(torch.arange(config.sequence).double(), config.rope_theta**-half)
    return torch.stack((angles.cos(), angles.sin())).float()[:, :, None, None, :]


class Attention(nn.Module):
    """Causal attention; the heads are split over the tensor-parallel ranks by groups of keys."""

    def __init__(self, config: GptConfig, parallel: TensorParallel, tag: str) -> None:
        super().__init__()
        size, bias = config.head_size, config.style is Style.GPT3
        self.size = size
        self.groups = parallel.part(config.kv_heads)
        self.queries = config.heads // config.kv_heads
        width = config.kv_heads * (self.queries + 2) * size
        self.enter = Enter(parallel, f"{tag}.in")
        # Rows by group: its queries, its key, its value; so that a rank's part is contiguous.
        self.query_key_value = ColumnParallel(config.hidden, width, parallel, bias=bias)
        self.projection = RowParallel(
            config.hidden, config.hidden, parallel, f"{tag}.out", bias=bias
        )

    def forward(self, x: torch.Tensor, rotary: torch.Tensor | None) -> torch.Tensor:
        """Hidden states to the same."""
        fused = self.query_key_value(self.enter(x))
        sequence, batch = fused.shape[:2]
        fused = fused.view(sequence, batch, self.groups, self.queries + 2, self.size)
        if self.queries == 1:
            query, key, value = fused.unbind(3)
        else:
            parts = fused.split((self.queries, 1, 1), dim=3)
            query, key, value = (part.flatten(2, 3) for part in parts)
        if rotary is not None:
            cosine, sine = rotary[0, :sequence], rotary[1, :sequence]
            query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        attended = functional.scaled_dot_product_attention(
            query.permute(1, 2, 0, 3),
            key.permute(1, 2, 0, 3),
            value.permute(1, 2, 0, 3),
            is_causal=True,
            enable_gqa=self.queries > 1,
        )
        out: torch.Tensor = self.projection(attended.permute(2, 0, 1, 3).flatten(2))
        return out


class FeedForward(nn.Module):
    """GELU of GPT-3 or SwiGLU of Llama; the inner width is split over the ranks."""

    def __init__(self, config: GptConfig, parallel: TensorParallel, tag: str) -> None:
        super().__init__()
        bias = config.style is Style.GPT3
        self.gated = config.style is Style.LLAMA
        self.enter = Enter(parallel, f"{tag}.in")
        self.up = ColumnParallel(
            config.hidden, config.ffn, parallel, bias=bias, stacked=2 if self.gated else 1
        )
        self.down = RowParallel(config.ffn, config.hidden, parallel, f"{tag}.out", bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states to the same."""
        x = self.up(self.enter(x))
        if self.gated:
            gate, x = x.chunk(2, dim=-1)
            x = functional.silu(gate) * x
        else:
            x = functional.gelu(x)
        out: torch.Tensor = self.down(x)
        return out


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and a residual."""

    def __init__(self, config: GptConfig, parallel: TensorParallel, layer: int) -> None:
        super().__init__()
        self.norm_attention = norm(config)
        self.attention = Attention(config, parallel, f"attention.{layer}")
        self.norm_feed_forward = norm(config)
        self.feed_forward = FeedForward(config, parallel, f"mlp.{layer}")

    def forward(self, x: torch.Tensor, rotary: torch.Tensor | None) -> torch.Tensor:
        """Hidden states to the same."""
        x = x + self.attention(self.norm_attention(x), rotary)
        out: torch.Tensor = x + self.feed_forward(self.norm_feed_forward(x))
        return out


class Gpt(nn.Module):
    """One stage of the model: ids (batch, sequence) or hidden states in, the latter or logits out.

    Args:
        recompute: Whether a block's activations are made again for the backward pass.
    """

    def __init__(
        self,
        config: GptConfig,
        parallel: TensorParallel = SERIAL,
        part: Part | None = None,
        *,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.config = config
        self.part = part = part or Part(0, config.layers, config.layers)
        self.recompute = recompute
        self._parallel = parallel
        learned = config.style is Style.GPT3
        if part.has_embedding:
            self.tokens = VocabularyParallelEmbedding(
                config.vocabulary, config.hidden, parallel, "embedding"
            )
            if learned:
                self.positions = nn.Parameter(torch.empty(config.sequence, 1, config.hidden))
        self.blocks = nn.ModuleDict(
            {str(layer): Block(config, parallel, layer) for layer in range(part.first, part.last)}
        )
        if not learned:
            self.register_buffer("rotary", rotary_table(config), persistent=False)
        if part.has_output:
            self.norm = norm(config)
            self.enter_output = Enter(parallel, "output")
            self.loss = VocabularyParallelLoss(parallel)
            if not self.shares_embedding:
                self.output = ColumnParallel(config.hidden, config.vocabulary, parallel, bias=False)

    @property
    def shares_embedding(self) -> bool:
        """Whether the output uses the embedding's own weights: a tied model of one stage."""
        return self.part.has_embedding and self.part.has_output and self.config.tied

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The stage's output for one micro-batch."""
        if self.part.has_embedding:
            x = self._embedded(x.transpose(0, 1))
        rotary = None if self.config.style is Style.GPT3 else self.rotary
        for block in self.blocks.values():
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(block, x, rotary, use_reentrant=False)
            else:
                x = block(x, rotary)
        if self.part.has_output:
            x = self.enter_output(self.norm(x))
            x = (
                functional.linear(x, self.tokens.weight)
                if self.shares_embedding
                else self.output(x)
            ).float()  # as the stage says of its output, whatever the precision inside
        return x

    def mean_loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy of logits against ids (batch, sequence)."""
        loss: torch.Tensor = self.loss(logits, targets.transpose(0, 1))
        return loss

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        x: torch.Tensor = self.tokens(ids)
        if self.config.style is Style.GPT3:
            places = self.positions[: ids.shape[0]]
            if x.shape[0] < ids.shape[0]:  # this rank's part of the sequence
                places = places.chunk(self._parallel.size)[self._parallel.rank]
            x = x + places
        return x


def norm(config: GptConfig) -> nn.Module:
    """The family's norm."""
    if config.style is Style.GPT3:
        return nn.LayerNorm(config.hidden, eps=NORM_EPSILON)
    return nn.RMSNorm(config.hidden, eps=NORM_EPSILON)


@torch.no_grad()
def initialize(model: Gpt, seed: int, parallel: TensorParallel = SERIAL) -> None:
    """Weights from the seed and the parameter's name alone: equal in every layout.

    Normal with deviation sqrt(2 / 5h) (Nguyen and Salazar 2019, arXiv 1910.05895), projections
    onto the residual by 1/sqrt(2L) less (GPT-2); biases zero, norms one.
    """
    large = (2 / (5 * model.config.hidden)) ** 0.5
    small = large / (2 * model.config.layers) ** 0.5
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            nn.init.ones_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            # The output of a tied model begins as the embedding and stays equal to it.
            tied = model.config.tied and name == "output.weight"
            dice = torch.Generator().manual_seed(_seed(seed, "tokens.weight" if tied else name))
            residual = name.endswith(("projection.weight", "down.weight"))
            deviation = small if residual else large
            parameter.copy_(_mine(parameter, parallel, deviation, dice))


def _mine(
    parameter: nn.Parameter, parallel: TensorParallel, deviation: float, dice: torch.Generator
) -> torch.Tensor:
    """This rank's part of the whole parameter's random values."""
    dimension = shard_dimension(parameter)
    shape = list(parameter.shape)
    if dimension is None or parallel.size == 1:
        return torch.randn(shape, generator=dice) * deviation
    shape[dimension] *= parallel.size
    whole = torch.randn(shape, generator=dice) * deviation
    return whole.chunk(parallel.size, dim=dimension)[parallel.rank]


def _seed(seed: int, name: str) -> int:
    """32 bits: torch's generator on the CPU ignores all above (at/core/MT19937RNGEngine.h)."""
    return zlib.crc32(f"{seed}/{name}".encode())
