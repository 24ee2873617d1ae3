"""Ctrl-C in a benchmark of minutes: what it measured so far is not lost."""

from collections.abc import Mapping


class InterruptedEarlyError(Exception):
    """Ctrl-C ended a benchmark early.

    Attributes:
        figures: Of what was done until then.
    """

    def __init__(self, figures: Mapping[str, float]) -> None:
        super().__init__("interrupted")
        self.figures = figures
