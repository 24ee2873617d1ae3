"""A GPT in the GPT-3 style: learned positions, pre-norm, GELU, tied embedding."""

import torch
from torch import nn
from torch.nn import functional

from workloads.models.configs import GptConfig


class Block(nn.Module):
    """Attention and feed-forward, each behind a layer norm and a residual."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(hidden)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.norm_feed_forward = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, hidden) to the same."""
        batch, sequence, hidden = x.shape
        fused = self.query_key_value(self.norm_attention(x))
        query, key, value = fused.view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, hidden))
        fed: torch.Tensor = self.down(functional.gelu(self.up(self.norm_feed_forward(x))))
        return x + fed


class Gpt(nn.Module):
    """Token ids (batch, sequence) to logits (batch, sequence, vocabulary)."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.sequence, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.hidden)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                residual = name.endswith(("projection.weight", "down.weight"))
                scale = 0.02 / (2 * config.layers) ** 0.5 if residual else 0.02
                nn.init.normal_(parameter, std=scale)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at every position."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)
