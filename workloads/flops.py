"""Model FLOPs by a named formula, so that throughput and MFU say what they count."""

from dataclasses import dataclass

FORMULA = "megatron"


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """What the formula needs: layers, hidden, heads, ffn, vocabulary, sequence."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    sequence: int


def per_token(shape: TransformerShape) -> float:
    """Forward and backward FLOPs of one token.

    Megatron-LM's closed form (num_floating_point_operations) for GELU without grouped queries:
    6L(4h² + 2hf) + 6hV + 6Lhs, causal attention counted at half; norms, biases and embedding
    look-ups are not counted.
    """
    layers, hidden = shape.layers, shape.hidden
    matmuls = 6.0 * layers * (4 * hidden * hidden + 2 * hidden * shape.ffn)
    attention = 6.0 * layers * hidden * shape.sequence
    return matmuls + attention + 6.0 * hidden * shape.vocabulary
