"""Who a series is about when names change: nodes that were renamed, GPUs that were exchanged."""

from itertools import pairwise

import numpy as np
import pandas as pd

from lockstep.analyzer.hardware.anomalies.panel import Integers, Panel
from lockstep.analyzer.hardware.anomalies.shape import who
from lockstep.analyzer.shapes.labels import parsed
from lockstep.collector.contract import metrics

IDENTITY = ("serial", "pci_bus_id", "model")
"""Labels of the GPU's info series that another part has otherwise; the driver's version changes
with an update, and the part is the same."""


def one_name(samples: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The samples with each node under its last name, and the changes in words.

    Names are one node if they tell the same boot, one after the other. Names that answer at the
    same time are emulated nodes of one machine, which are told apart by their names alone.
    """
    boots = samples[samples["metric"] == metrics.BOOT_INFO.name]
    named = boots.drop_duplicates(["node", "labels"])[["node", "labels"]].fillna("")
    of_boot: dict[str, set[str]] = {}
    for node, labels in named.itertuples(index=False):
        of_boot.setdefault(parsed(str(labels)).get("boot_id", ""), set()).add(str(node))
    suspects = [nodes for boot, nodes in of_boot.items() if boot and len(nodes) > 1]
    if not suspects:
        return samples, ()
    times = samples.groupby("node", observed=True)["time"].agg(["min", "max"])
    begin, end = times["min"].to_dict(), times["max"].to_dict()
    names: dict[str, str] = {}
    for nodes in suspects:
        *old, last = sorted(nodes, key=lambda node: begin[node])
        if all(end[one] < begin[other] for one, other in pairwise([*old, last])):
            names |= dict.fromkeys(old, last)
    words = tuple(f"{old} is called {new} since a restart" for old, new in names.items())
    return samples.assign(node=samples["node"].map(lambda node: names.get(node, node))), words


def exchanged_parts(panel: Panel) -> tuple[Integers, tuple[str, ...]]:
    """((D,) first bin of the part that is in each place now, the exchanges in words)."""
    since = np.zeros(len(panel.places), dtype=np.int64)
    known: dict[int, dict[str, str]] = {}
    infos = [each for each in panel.series(metrics.GPU_INFO.name) if each.gpu >= 0]
    for told in sorted(infos, key=lambda each: (each.first_bin, each.labels)):
        labels = parsed(told.labels)
        now = {name: labels[name] for name in IDENTITY if labels.get(name)}
        before = known.setdefault(told.gpu, now)
        # A label that is only told now has not changed.
        if any(before.get(name, text) != text for name, text in now.items()):
            since[told.gpu] = told.first_bin
        known[told.gpu] = now
    words = tuple(
        f"{who(*panel.places[gpu])} is another part than at first: only what it told since then"
        " counts"
        for gpu in np.flatnonzero(since).tolist()
    )
    return since, words
