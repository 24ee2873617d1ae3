"""The baseline: never finds anything."""

from collections.abc import Sequence

from analyzer.run import Finding, Grid


class Null:
    """Scored beside the real detectors; its recall is 0 and so are its false alarms."""

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """Nothing."""
        return ()
