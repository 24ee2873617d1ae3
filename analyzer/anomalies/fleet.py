"""A panel with what is needed to compare: of which kind each GPU is, and whether it works."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analyzer.anomalies.panel import Panel, Place
from analyzer.anomalies.peers import LASTS_BINS
from analyzer.run import FloatGrid
from collector.contract import metrics

MODEL = re.compile(r'(?:^|,)model="((?:[^"\\]|\\.)*)"')
SIMULATED = 'simulated="true"'


@dataclass(frozen=True, slots=True)
class ComparablePanel:
    """Who is comparable.

    Attributes:
        panel: What was scraped.
        kind: (D,) number of the GPU's model; one that does not tell it has a kind of its own.
        stage: (D,) pipeline stage of the rank on it; -1 = not known, or no rank.
        busy: (T, D) whether it works.
        settled: (T, D) whether that has been so for a while: heat and power follow.
        simulated: (D,) whether it is a simulated GPU.
        doubted: (D,) by metric: series that are not to be believed.
        since: (D,) first bin of the part that is there now; before, another one had its place.
    """

    panel: Panel
    kind: NDArray[np.int64]
    stage: NDArray[np.int64]
    busy: NDArray[np.bool_]
    settled: NDArray[np.bool_]
    simulated: NDArray[np.bool_]
    since: NDArray[np.int64]
    doubted: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def gpus(self, metric: str, *selectors: str, without: str = "") -> FloatGrid | None:
        """As Panel.gpus, less what is doubted and what was another part."""
        return self._believed(metric, self.panel.gpus(metric, *selectors, without=without))

    def down(self, metric: str) -> FloatGrid | None:
        """As Panel.down, likewise."""
        return self._believed(metric, self.panel.down(metric))

    def rises(
        self, metric: str, *selectors: str, without: str = "", fresh: bool = False
    ) -> FloatGrid | None:
        """As Panel.rises of GPUs, likewise."""
        cells = self.panel.rises(metric, *selectors, without=without, fresh=fresh)
        return self._believed(metric, cells)

    def _believed(self, metric: str, cells: FloatGrid | None) -> FloatGrid | None:
        if cells is None:
            return None
        # The first scrape of another part compares it with the one before: left out too.
        now = np.arange(len(cells))[:, None] > np.where(self.since > 0, self.since, -1)
        cells = np.where(now, cells, np.nan)
        doubted = self.doubted.get(metric)
        return cells if doubted is None else np.where(doubted, np.nan, cells)

    def alike(self, *, works: bool, by_load: bool = False) -> NDArray[np.int64]:
        """(T, D) groups for peers.distances: same model, both at work or both idle.

        Args:
            works: Leave out GPUs that do not work.
            by_load: The same pipeline stage too.
        """
        group = self.kind * (self.stage.max(initial=-1) + 2) + self.stage + 1 if by_load else (
            self.kind
        )  # fmt: skip
        if works:
            return np.where(self.busy, group, -1)
        return np.where(self.settled, 2 * group + self.busy, -1)


def fleet(panel: Panel, stages: Mapping[Place, int]) -> ComparablePanel:
    """The fleet of a panel.

    Args:
        panel: What was scraped.
        stages: Pipeline stage of the rank on a GPU, where there is a rank.
    """
    busy = panel.busy()
    model, simulated = _identities(panel)
    return ComparablePanel(
        panel=panel,
        kind=model,
        stage=np.array([stages.get(place, -1) for place in panel.places], dtype=np.int64),
        busy=busy,
        settled=_settled(busy),
        simulated=simulated,
        since=np.zeros(len(panel.places), dtype=np.int64),
    )


def _identities(panel: Panel) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(number of the model, whether it is simulated) of each GPU, as last told."""
    models = [""] * len(panel.places)
    simulated = np.zeros(len(panel.places), dtype=bool)
    for told in sorted(panel.first_and_last(metrics.GPU_INFO.name), key=lambda told: told.last_bin):
        if told.gpu >= 0:
            found = MODEL.search(told.labels)
            models[told.gpu] = found[1] if found else ""
            simulated[told.gpu] = SIMULATED in told.labels
    _, number = np.unique(np.array(models, dtype=str), return_inverse=True)
    return number.astype(np.int64), simulated


def _settled(busy: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(T, D) whether the load did not change in the last LASTS_BINS."""
    changed = np.zeros(busy.shape, dtype=bool)
    changed[1:] = busy[1:] != busy[:-1]
    recent = np.cumsum(changed, axis=0)
    earlier = np.zeros_like(recent)
    earlier[LASTS_BINS:] = recent[:-LASTS_BINS]
    settled: NDArray[np.bool_] = recent == earlier
    return settled
