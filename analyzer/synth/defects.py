"""What telemetry lacks: gaps, counters that begin again, sources and nodes that never answer."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.synth.fleet import GPUS_PER_NODE, Defect, SyntheticFleet, Telling
from collector.contract.metrics import METRICS, Kind

GAP_SECONDS = (90.0, 300.0)
TRAINING = ("lockstep_train_", "lockstep_rank_up", "lockstep_rank_info")
NETWORK = ("lockstep_net_", "lockstep_ib_", "lockstep_tcp_")


def with_defects(
    fleet: SyntheticFleet, told: pd.DataFrame, dice: np.random.Generator
) -> pd.DataFrame:
    """The samples that a monitor with these defects would have."""
    node = told["node"].str.removeprefix("node-").to_numpy(dtype=np.int64)
    time = told["time"].to_numpy(dtype=float)
    metric = told["metric"]
    training = metric.str.startswith(TRAINING).to_numpy(dtype=bool)
    answered = (metric == "up").to_numpy(dtype=bool)
    hardware = ~training & ~answered
    span = float(time.min()), float(time.max())
    lost = np.zeros(len(told), dtype=bool)
    failed = lost.copy()
    for fault in fleet.faults:
        if fault.telling is Telling.MISSING:
            lost |= hardware & (node == fault.place // GPUS_PER_NODE)
    blamed = {fault.place // GPUS_PER_NODE for fault in fleet.faults}
    others = np.array([n for n in range(fleet.nodes) if n not in blamed], dtype=np.int64)
    if Defect.GAP in fleet.defects:
        begin = dice.uniform(*span)
        inside = (time >= begin) & (time < begin + dice.uniform(*GAP_SECONDS))
        failed |= inside & (node == dice.integers(fleet.nodes))
    if Defect.SOURCE in fleet.defects and others.size:
        of_gpu = told["gpu"].notna().to_numpy(dtype=bool)
        of_network = metric.str.startswith(NETWORK).to_numpy(dtype=bool)
        lost |= (of_gpu if dice.random() < 0.5 else of_network) & (node == dice.choice(others))
    if Defect.SILENT in fleet.defects and others.size:
        silent = dice.choice(others, min(fleet.nodes // 2, others.size), replace=False)
        failed |= np.isin(node, silent) & (time >= (span[0] + span[1]) / 2)
    value = told["value"].to_numpy(dtype=float).copy()
    value[failed & answered] = 0.0
    if Defect.RESET in fleet.defects:
        mine = hardware & (node == dice.integers(fleet.nodes)) & (time >= dice.uniform(*span))
        value = _reset(told, value, mine)
    # A failed scrape leaves `up` 0 and nothing else.
    keep = ~lost & (~failed | answered)
    return told.assign(value=value)[keep].reset_index(drop=True)


def _reset(
    told: pd.DataFrame, value: NDArray[np.float64], mine: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Counters of hardware begin at 0 again, as after a driver reload."""
    counts = told["metric"].map({n: m.kind is Kind.COUNTER for n, m in METRICS.items()})
    begin = mine & counts.fillna(False).to_numpy(dtype=bool)
    if not begin.any():
        return value
    keys = ["metric", "labels", "gpu", "rank"]
    first = told[begin].assign(value=value[begin]).groupby(keys, dropna=False)["value"]
    made = value.copy()
    made[begin] = value[begin] - first.transform("min").to_numpy(dtype=float)
    return made
