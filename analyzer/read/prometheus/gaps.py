"""What nobody scraped, in words: a gap in the record is a fact about the record, not the run."""

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract.metrics import BUILD_INFO

SHOWN_NODES = 4


def gaps(samples: pd.DataFrame) -> list[str]:
    """A sentence on the nodes that were not scraped for a while, and on scrapes that failed."""
    words = []
    scraped = samples[samples["metric"] == BUILD_INFO.name]
    for node, rows in scraped.groupby("node"):
        lengths = np.diff(np.unique(rows["time"].to_numpy(dtype=float)))
        long = lengths[lengths > MAX_GAP * np.median(lengths)] if lengths.size else lengths
        if long.size:
            words.append(f"{node} was not scraped for {long.sum():.0f} s")
    if len(words) > SHOWN_NODES:
        words = [*words[:SHOWN_NODES], f"{len(words) - SHOWN_NODES} more nodes have gaps"]
    return words
