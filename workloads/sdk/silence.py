"""How long ranks that meet may be seen not to meet, before it is doubted that they are seen."""

SILENT_STEPS = 100
"""So many steps in a row without a collective are believed to be what they look like.

Accumulation of gradients and averaging of weights now and then (local SGD, DiLoCo) leave up to some
hundred steps between two meetings. Beyond that, ranks more likely meet by means that nobody times.
"""


class Silence:
    """Steps in a row in which this rank met nobody; doubted until it has met somebody."""

    def __init__(self) -> None:
        self._steps = SILENT_STEPS

    def lasts(self, *, broken: bool) -> bool:
        """Whether it is too long with one more step, in which somebody was met or nobody was."""
        self._steps = 0 if broken else self._steps + 1
        return self._steps > SILENT_STEPS
