"""The operations of a span for ui.perfetto.dev."""

import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.read.archive.files import LATEST
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.report.perfetto.timeline import TimelineError, of_run
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_steps
from lockstep.collector.contract import archive
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.archive.operations import read
from lockstep.dashboard.trouble import Kind, TroubleError

MOST_OPERATIONS = 100_000
"""About 25 MB of JSON, 1.5 MB compressed: browsers open it at once."""
COMPRESSION = 5


def trace(
    ops: Table, steps: Table, who: pd.DataFrame, meta: Mapping[str, Any], run: str, span: Span
) -> bytes:
    """Trace Event JSON, gzip: the first whole steps of the span, up to MOST_OPERATIONS.

    Raises:
        TroubleError: There are no operations in it.
    """
    rows = read(ops, span, [each.name for each in archive.OPS])
    if rows.empty:
        raise TroubleError(
            Kind.EMPTY, "No operation was recorded in this range.",
            "Choose a range in which the run trained.",
        )  # fmt: skip
    count = rows.groupby("step").size().sort_index().cumsum()
    last = int(count.index[max(int(np.searchsorted(count, MOST_OPERATIONS)) - 1, 0)])
    first = int(count.index[0])
    rows = rows[rows["step"] <= last]
    texts = {name: rows[name].astype(object).fillna("").astype(str)
             for name in ("optype", "group", "flags", "tag")}  # fmt: skip
    told = steps.read([each.name for each in archive.STEPS]).to_pandas()
    told = told[told["step"].between(first, last) & told["start"].between(0, LATEST)]
    told = told.assign(tags=told["tags"].astype(str))
    infos = tuple(
        RankInfo(int(each["rank"]), each["node"], None if pd.isna(each["gpu"]) else each["gpu"],
                 each["uuid"] or None, int(each["local_rank"]), int(each["dp"]), int(each["pp"]),
                 int(each["tp"]))
        for each in who.to_dict("records")
    )  # fmt: skip
    found = Run(run, meta, infos, from_steps(told), pd.DataFrame(), rows.assign(**texts))
    try:
        parts = "".join(of_run(found, range(first, last + 1)).parts())
    except TimelineError as error:
        raise TroubleError(Kind.EMPTY, f"{error}.", "Choose another range.") from None
    return gzip.compress(parts.encode(), COMPRESSION, mtime=0)
