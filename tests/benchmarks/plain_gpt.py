"""The same GPT as nanoGPT's readers would write it: torch's own layers and nothing of ours.

What the benchmarks compare with; `copied` proves by its weights that it is the same model.
"""

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional

from lockstep.workloads.models.configs import GptConfig
from lockstep.workloads.models.gpt import Gpt

EPSILON = 1e-5


class Block(nn.Module):
    """Attention and feed-forward, each behind a layer norm and a residual."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.size = config.head_size
        self.norm_attention = nn.LayerNorm(config.hidden, EPSILON)
        self.query_key_value = nn.Linear(config.hidden, 3 * config.hidden)
        self.projection = nn.Linear(config.hidden, config.hidden)
        self.norm_feed_forward = nn.LayerNorm(config.hidden, EPSILON)
        self.up = nn.Linear(config.hidden, config.ffn)
        self.down = nn.Linear(config.ffn, config.hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, hidden) to the same."""
        batch, sequence, _ = x.shape
        fused = self.query_key_value(self.norm_attention(x))
        # Rows by head, so that a rank of tensor parallel has whole heads.
        parts = fused.view(batch, sequence, -1, 3, self.size).unbind(3)
        query, key, value = (part.transpose(1, 2) for part in parts)
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(heads.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm_feed_forward(x))))
        return out


class PlainGpt(nn.Module):
    """Ids (batch, sequence) to logits; the output shares the embedding's weights."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Parameter(torch.empty(config.sequence, config.hidden))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden, EPSILON)
        self.mesh: DeviceMesh | None = None

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of one batch; a DTensor split by vocabulary under tensor parallel."""
        x = self.tokens(ids) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.mesh is not None:
            x = DTensor.from_local(x, self.mesh, [Replicate()], run_check=False)
        return functional.linear(x, self.tokens.weight)


def mean_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy over ids (batch, sequence)."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def copied(model: Gpt) -> PlainGpt:
    """The plain model with the weights of a whole one of ours (GPT-3 style)."""
    plain = PlainGpt(model.config)
    plain.positions.copy_(model.positions.squeeze(1))
    plain.tokens.weight.copy_(model.tokens.weight)
    plain.norm.load_state_dict(model.norm.state_dict())
    for mine, ours in zip(plain.blocks, model.blocks.values(), strict=True):
        state = {name.removeprefix("attention.").removeprefix("feed_forward."): value
                 for name, value in ours.state_dict().items()}  # fmt: skip
        mine.load_state_dict(state)
    return plain


def parallelized(plain: PlainGpt, mesh: DeviceMesh) -> PlainGpt:
    """torch's own tensor parallel of it (torch.distributed.tensor.parallel's tutorial)."""
    parallelize_module(plain, mesh, {"tokens": RowwiseParallel(input_layouts=Replicate())})
    for block in plain.blocks:
        parallelize_module(
            block, mesh,
            {"query_key_value": ColwiseParallel(), "projection": RowwiseParallel(),
             "up": ColwiseParallel(), "down": RowwiseParallel()},
        )  # fmt: skip
    plain.mesh = mesh
    return plain
