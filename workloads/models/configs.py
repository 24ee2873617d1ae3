"""Sizes of the models, by name; no torch, so that planning a run is cheap."""

from dataclasses import dataclass

from workloads.flops import TransformerShape


@dataclass(frozen=True, slots=True)
class GptConfig:
    """Sizes of the model."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int

    @property
    def shape(self) -> TransformerShape:
        """The sizes as the FLOPs formula takes them."""
        return TransformerShape(
            self.layers, self.hidden, self.heads, 4 * self.hidden, self.vocabulary, self.sequence
        )


TINY = GptConfig(layers=2, hidden=64, heads=4, vocabulary=64, sequence=64)
"""0.11 M parameters; a step of 2 sequences costs a few milliseconds of CPU."""
