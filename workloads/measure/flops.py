"""Model FLOPs of one token, forward and backward, by three named formulas.

They differ by up to 15 %, so every figure that is shown carries the formula's name.
"""

from collections.abc import Callable

from lockstep.workloads.models.configs import GptConfig

FORMULA = "megatron"
"""What the ring and the log line count, unless they say otherwise."""


def megatron(config: GptConfig) -> float:
    """Megatron-LM's closed form (num_floating_point_operations).

    6L(h(ad + 2kd) + adh + mhf) + 6hV + 6L·a·d·s: causal attention counted at half; norms, biases
    and embedding look-ups not counted.
    """
    hidden, width = config.hidden, config.heads * config.head_size
    matmuls = hidden * (width + 2 * config.kv_heads * config.head_size) + width * hidden
    matmuls += config.matrices * hidden * config.ffn
    layers = 6.0 * config.layers * (matmuls + width * config.sequence)
    return layers + 6.0 * hidden * config.vocabulary


def palm(config: GptConfig) -> float:
    """PaLM's appendix B (arXiv 2204.02311): 6N + 12L·a·d·s, attention counted whole.

    N are the parameters without learned positions, and without the token embedding where the
    output has weights of its own.
    """
    width = config.heads * config.head_size
    return 6.0 * config.matmul_parameters + 12.0 * config.layers * width * config.sequence


def torchtitan(config: GptConfig) -> float:
    """torchtitan's: as PaLM's, with learned positions counted in a tied model."""
    positions = config.sequence * config.hidden if config.tied else 0
    return palm(config) + 6.0 * positions


FORMULAS: dict[str, Callable[[GptConfig], float]] = {
    "megatron": megatron,
    "palm": palm,
    "torchtitan": torchtitan,
}


def per_token(config: GptConfig, formula: str = FORMULA) -> float:
    """Forward and backward FLOPs of one token.

    Raises:
        KeyError: There is no such formula.
    """
    return FORMULAS[formula](config)
