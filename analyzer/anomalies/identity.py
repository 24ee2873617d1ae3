"""Who a series is about when names change: nodes that were renamed, GPUs that were exchanged."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.anomalies.panel import Panel
from analyzer.anomalies.shape import who
from collector.contract import metrics

BOOT = re.compile(r'boot_id="([^"]+)"')
RENAMED_SECONDS = 600.0
"""A node that comes back under another name does so within this time: a restart of its collector,
or of the scraper's discovery."""
IDENTITY = ("serial", "pci_bus_id", "model")
"""Labels of the GPU's info series that another part has otherwise; the driver's version changes
with an update, and the part is the same."""


def one_name(samples: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The samples with each node under its last name, and the changes in words.

    Two names are one node if they tell the same boot, one after the other. Names that answer at
    the same time are emulated nodes of one machine, which are told apart by their names alone.
    """
    boots = samples[samples["metric"] == metrics.BOOT_INFO.name]
    if boots.empty:
        return samples, ()
    named = boots.drop_duplicates(["node", "labels"])[["node", "labels"]]
    of_boot: dict[str, list[str]] = {}
    for node, labels in zip(named["node"], named["labels"].fillna(""), strict=True):
        found = BOOT.search(str(labels))
        if found:
            of_boot.setdefault(found[1], []).append(str(node))
    suspects = [nodes for nodes in of_boot.values() if len(set(nodes)) > 1]
    if not suspects:
        return samples, ()
    times = samples.groupby("node", observed=True)["time"].agg(["min", "max"])
    begin, end = times["min"].to_dict(), times["max"].to_dict()
    names: dict[str, str] = {}
    for nodes in suspects:
        for old in sorted(set(nodes)):
            after = [each for each in set(nodes) if begin[each] > end[old]]
            heirs = [each for each in after if begin[each] - end[old] <= RENAMED_SECONDS]
            # One name ended and one began: with more, nobody knows which went on as which.
            if len(heirs) != 1:
                continue
            ended = [each for each in set(nodes) if end[each] < begin[heirs[0]]]
            if ended == [old]:
                names[old] = heirs[0]
    if not names:
        return samples, ()
    words = tuple(f"{old} is called {new} since a restart" for old, new in names.items())
    return samples.assign(node=samples["node"].map(lambda node: names.get(node, node))), words


def exchanged_parts(panel: Panel) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """((D,) first bin of the part that is in each place now, the exchanges in words)."""
    since = np.zeros(len(panel.places), dtype=np.int64)
    seen: dict[int, list[tuple[int, str]]] = {}
    for told in panel.first_and_last(metrics.GPU_INFO.name):
        if told.gpu >= 0:
            seen.setdefault(told.gpu, []).append((told.first_bin, _identity(told.labels)))
    words = []
    for gpu, parts in seen.items():
        parts.sort()
        changes = [
            place for (_, before), (place, now) in pairwise(parts)
            if _differ(before, now)
        ]  # fmt: skip
        if changes:
            since[gpu] = changes[-1]
            words.append(
                f"{who(*panel.places[gpu])} is another part than at first: only what it told since"
                " then counts"
            )
    return since, tuple(words)


def _identity(labels: str) -> str:
    values = [re.search(rf'(?:^|,){name}="([^"]*)"', labels) for name in IDENTITY]
    return "|".join(found[1] if found else "" for found in values)


def _differ(before: str, now: str) -> bool:
    """Whether a label that both tell has changed; one that is only told now has not."""
    pairs = zip(before.split("|"), now.split("|"), strict=True)
    return any(old != new and old and new for old, new in pairs)
