"""Sizes of the models, by name; no torch, so that planning a run is cheap."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Style(StrEnum):
    """What the two families differ in: positions, norms, biases and the feed-forward."""

    GPT3 = "gpt3"
    """Learned positions, layer norm, biases, GELU; the output shares the embedding's weights."""
    LLAMA = "llama"
    """Rotary positions, RMS norm, no biases, SwiGLU; the output has weights of its own."""


class ConfigError(ValueError):
    """A model's sizes do not fit together, or do not divide by the layout."""


@dataclass(frozen=True, slots=True)
class GptConfig:
    """Sizes of a model.

    Attributes:
        kv_heads: Heads of keys and values; fewer than `heads` is grouped-query attention.
        ffn: Width inside the feed-forward.
        rope_theta: Base of the rotary positions' frequencies (Llama only).
    """

    name: str
    style: Style
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    rope_theta: float = 1e4

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "sequence"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.hidden % self.heads:
            raise ConfigError(f"hidden {self.hidden} is not divisible by {self.heads} heads")
        if self.heads % self.kv_heads:
            raise ConfigError(f"heads {self.heads} are not divisible by kv_heads {self.kv_heads}")
        if self.style is Style.LLAMA and self.head_size % 2:
            raise ConfigError(f"head size {self.head_size} is odd; rotary positions turn pairs")

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads

    @property
    def tied(self) -> bool:
        """Whether the output shares the embedding's weights."""
        return self.style is Style.GPT3

    @property
    def matrices(self) -> int:
        """Matrices of the feed-forward: up and down, and the gate of SwiGLU."""
        return 2 if self.style is Style.GPT3 else 3

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer."""
        width, kv_width = self.hidden, self.kv_heads * self.head_size
        weights = width * (width + 2 * kv_width) + width * width + self.matrices * width * self.ffn
        if self.style is Style.LLAMA:
            return weights + 2 * width
        return weights + (width + 2 * kv_width) + width + self.ffn + width + 4 * width

    @property
    def norm_parameters(self) -> int:
        """Parameters of the norm before the output."""
        return self.hidden if self.style is Style.LLAMA else 2 * self.hidden

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the token embedding; an untied output has as many."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        positions = self.sequence * self.hidden if self.style is Style.GPT3 else 0
        outputs = 1 if self.tied else 2
        layers = self.layers * self.layer_parameters + self.norm_parameters
        return layers + outputs * self.embedding_parameters + positions

    @property
    def matmul_parameters(self) -> int:
        """Parameters as PaLM's formula counts them: one embedding, no positions."""
        layers = self.layers * self.layer_parameters + self.norm_parameters
        return layers + self.embedding_parameters


def _gpt3(name: str, layers: int, hidden: int, heads: int) -> GptConfig:
    return GptConfig(name, Style.GPT3, layers, hidden, heads, heads, 4 * hidden, 50257, 2048)


def _llama(
    name: str, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocabulary: int,
    sequence: int, theta: float,
) -> GptConfig:  # fmt: skip
    return GptConfig(
        name, Style.LLAMA, layers, hidden, heads, kv_heads, ffn, vocabulary, sequence, theta
    )


TINY = GptConfig("tiny", Style.GPT3, 2, 64, 4, 4, 256, 64, 64)
"""0.11 M parameters; a step of 2 sequences costs a few milliseconds of CPU."""
TINY_LLAMA = GptConfig("tiny-llama", Style.LLAMA, 2, 64, 4, 2, 176, 64, 64)
SMALL = GptConfig("small", Style.GPT3, 4, 64, 4, 4, 256, 512, 64)
"""0.24 M parameters in four layers: enough of them for four pipeline stages."""
DEEP = GptConfig("deep", Style.GPT3, 8, 64, 8, 8, 256, 64, 64)
"""0.41 M parameters in eight layers of eight heads: eight pipeline stages, or tensor parts."""
DEMO = GptConfig("demo", Style.GPT3, 6, 384, 6, 6, 1536, 4096, 256)
"""12 M parameters: what a laptop trains in minutes."""

CONFIGS: dict[str, GptConfig] = {
    config.name: config
    for config in (
        TINY,
        TINY_LLAMA,
        SMALL,
        DEEP,
        DEMO,
        # Brown et al. 2020 (arXiv 2005.14165), table 2.1; 13B with Megatron's 40 heads of 128.
        _gpt3("gpt3-125m", 12, 768, 12),
        _gpt3("gpt3-350m", 24, 1024, 16),
        _gpt3("gpt3-1.3b", 24, 2048, 16),
        _gpt3("gpt3-6.7b", 32, 4096, 32),
        _gpt3("gpt3-13b", 40, 5120, 40),
        _gpt3("gpt3-175b", 96, 12288, 96),
        # Touvron et al. 2023 (arXiv 2307.09288) and Grattafiori et al. 2024 (arXiv 2407.21783).
        _llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096, theta=1e4),
        _llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096, theta=1e4),
        _llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, theta=5e5),
        _llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, theta=5e5),
        _llama("llama3.1-405b", 126, 16384, 128, 8, 53248, 128256, 8192, theta=5e5),
    )
}
"""The published models and five small ones."""


def resized(
    config: GptConfig, vocabulary: int | None = None, sequence: int | None = None
) -> GptConfig:
    """The model with another vocabulary or sequence length."""
    return replace(
        config,
        vocabulary=config.vocabulary if vocabulary is None else vocabulary,
        sequence=config.sequence if sequence is None else sequence,
    )
