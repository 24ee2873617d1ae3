"""Operations of our own archives as public ones: tensor-parallel ranks folded, names mapped.

A worker is its tp ranks together: it begins when its last rank does and ends when its last rank
does. What our runs do otherwise than Megatron-LM is expressed in the words of the model:

- gradients travel in buckets while the last backward pass still runs: one `grads-reduce-scatter`,
  from the end of the computation (or the first bucket, if later) to the end of the last bucket;
- clipping and gathering parameters happen inside `optimizer`: it is what comes after them;
- transfers end when they probably did, not when somebody looked;
- what the host does between two operations belongs to the local one beside it;
- without a pipeline, clipping needs nobody of another replica: it is part of the optimizer;
- without a pipeline nothing keeps the replicas together after the gradients: there a step begins
  with the optimizer of the step before, and ends with the gradients;
- garbage is collected in some steps only: in the others it takes no time.
"""

import re

import numpy as np
import pandas as pd

from lockstep.analyzer.read.optrace.rows import COLUMNS

TRANSFER_TAG = re.compile(r"c\d+\.m(\d+)$")
COMPUTE = ("forward-compute", "backward-compute")
BUCKETS = ("dp-all-reduce", "grads-reduce-scatter")
ONCE = ("params-all-gather", "optimizer-clip-main-grad", "layernorm-grads-all-reduce", "data-load")
"""Types of which a step may have several that the model counts as one, first start to last end."""
INSIDE_OPTIMIZER = ("optimizer-clip-main-grad", "params-all-gather")
AFTER_GRADIENTS = ("optimizer-clip-main-grad", "optimizer", "gc")
AT_ONCE = 1e-3
"""Seconds; a receive that ends this soon after the computation in between was there already."""
LOCAL = (*COMPUTE, "optimizer", "data-load")
UNTOLD = ("tp-all-reduce", "tp-all-gather", "tp-reduce-scatter", "world-all-reduce",
          "world-broadcast", "world-barrier")  # fmt: skip
"""Inside computation, or rare; the model has no place for them."""
PEERS = {"forward-recv": ("forward-send", -1), "backward-recv": ("backward-send", 1)}
"""Receive -> what it receives, and how many chunks away."""
WHO = ["rank", "step"]
WORKER_OP = ["dp_rank", "stage", "step", "optype", "seq_id"]


def timed(ops: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a start, a duration and a place on the run's clock."""
    return ops[(ops[["start_ts", "duration", "start_ns"]].abs() < np.inf).all(axis=1)]


def fold(ops: pd.DataFrame) -> pd.DataFrame:
    """Rows of contract.archive.OPS as rows of public.COLUMNS, one a worker and operation.

    Rows without times are left out; without any that the model knows, none come back.
    """
    ops = timed(ops)
    ops = ops[~ops["optype"].isin(UNTOLD)]
    if ops.empty:
        return ops.reindex(columns=list(COLUMNS))
    ops = ops.assign(
        end=lambda rows: rows["start_ts"] + rows["duration"],
        mb_id=lambda rows: _micro_batch(rows),
    )
    # After a restart a step may have run twice: the later one counts.
    ops = ops.sort_values("start_ns", kind="stable")
    ops = ops.drop_duplicates([*WHO, "optype", "seq_id"], keep="last")
    if not ops["stage"].any() and not (ops["optype"] == "params-all-gather").any():
        ops = ops[ops["optype"] != "optimizer-clip-main-grad"]
    buckets = ops["optype"].isin(BUCKETS)
    once = ops["optype"].isin(ONCE)
    single = pd.concat(
        [_joined(ops[buckets].assign(optype="grads-reduce-scatter")), _joined(ops[once])]
    )
    computed = ops[ops["optype"].isin(COMPUTE)].groupby(WHO)["end"].max().rename("computed")
    single = single.join(computed, on=WHO)
    late = single["optype"] == "grads-reduce-scatter"
    single["start_ts"] = single["start_ts"].mask(
        late, np.fmax(single["start_ts"], single["computed"])
    )
    rest = _bare_optimizer(_met(ops[~buckets & ~once]), single)
    rows = pd.concat([rest, single.drop(columns="computed"), _no_garbage(rest, single)])
    kinds = set(rows["optype"])
    if not rows["stage"].any() and "params-all-gather" not in kinds and buckets.any():
        rows = _turned(rows, _origins(ops))
    return _over_tp(_tiled(rows))


def _micro_batch(rows: pd.DataFrame) -> pd.Series:
    """Transfers report their micro-batch in the tag, as `c0.m3`."""
    found = {tag: TRANSFER_TAG.match(str(tag)) for tag in rows["tag"].unique()}
    told = rows["tag"].map({tag: int(match[1]) for tag, match in found.items() if match})
    return rows["mb_id"].where(rows["mb_id"] >= 0, told.astype(float).fillna(-1)).astype("int64")


def _joined(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a rank, step and type: from the first start to the last end."""
    found = rows.groupby([*WHO, "optype"], as_index=False).agg(
        {"start_ts": "min", "end": "max", "dp_rank": "first", "stage": "first",
         "tp_rank": "first", "seq_id": "min", "mc": "first", "gmc": "first", "mb_id": "first"}
    )  # fmt: skip
    return found.assign(seq_id=0)


def _met(rows: pd.DataFrame) -> pd.DataFrame:
    """Transfers with the end that they probably had: what is recorded is only an upper bound.

    A receive that was posted ahead is looked at after the computation in between. If it was there
    by then, it came as soon as both sides had begun, for all that anybody knows. A send that
    nobody waits for ends with its receive.
    """
    keys = ["dp_rank", "tp_rank", "step", "optype", "gmc", "mb_id"]
    receives = rows[rows["optype"].isin(PEERS)]
    if receives.empty:
        return rows
    sends = rows[rows["optype"].isin([send for send, _ in PEERS.values()])]
    receives = receives.assign(
        receive=receives["optype"],
        optype=receives["optype"].map({name: send for name, (send, _) in PEERS.items()}),
        gmc=receives["gmc"] + receives["optype"].map({name: by for name, (_, by) in PEERS.items()}),
    ).merge(sends[[*keys, "start_ts"]].rename(columns={"start_ts": "sent"}), on=keys, how="left")
    compute = rows[rows["optype"].isin(COMPUTE)][[*WHO, "end"]].rename(columns={"end": "computed"})
    receives = pd.merge_asof(
        receives.sort_values("end"), compute.sort_values("computed"),
        left_on="end", right_on="computed", by=WHO,
    )  # fmt: skip
    there = (receives["computed"] > receives["start_ts"]) & (
        receives["end"] - receives["computed"] < AT_ONCE
    )
    both = np.fmax(receives["start_ts"], receives["sent"])
    receives["met"] = receives["end"].mask(there, np.fmin(receives["end"], both))
    met = pd.concat([
        receives[[*keys, "met"]],
        receives.assign(
            optype=receives["receive"],
            gmc=receives["gmc"] - receives["receive"].map(
                {name: by for name, (_, by) in PEERS.items()}
            ),
        )[[*keys, "met"]],
    ])  # fmt: skip
    rows = rows.merge(met, on=keys, how="left")
    end = np.fmax(np.fmin(rows["end"], rows["met"]), rows["start_ts"])
    return rows.assign(end=end).drop(columns="met")


def _bare_optimizer(rows: pd.DataFrame, single: pd.DataFrame) -> pd.DataFrame:
    """The optimizer after the collectives inside it."""
    inner = single[single["optype"].isin(INSIDE_OPTIMIZER)]
    rows = rows.join(inner.groupby(WHO)["end"].max().rename("inside"), on=WHO)
    begin = np.fmin(np.fmax(rows["start_ts"], rows["inside"]), rows["end"])
    mine = rows["optype"] == "optimizer"
    return rows.assign(start_ts=rows["start_ts"].mask(mine, begin)).drop(columns="inside")


def _no_garbage(rest: pd.DataFrame, single: pd.DataFrame) -> pd.DataFrame:
    """A `gc` of no time at the end of the steps that have none."""
    having = rest[rest["optype"] == "gc"].set_index(WHO).index
    if not len(having):
        return rest.iloc[:0]
    ends = pd.concat([rest, single]).groupby(WHO, as_index=False).agg(
        {"end": "max", "dp_rank": "first", "stage": "first", "tp_rank": "first"}
    )  # fmt: skip
    ends = ends[~ends.set_index(WHO).index.isin(having)]
    return ends.assign(optype="gc", start_ts=ends["end"], seq_id=0, mc=-1, gmc=-1, mb_id=-1)


def _tiled(rows: pd.DataFrame) -> pd.DataFrame:
    """Local operations from the end of what came before until the start of what comes after."""
    rows = rows.sort_values([*WHO, "start_ts", "end"], kind="stable")
    by_step = rows.groupby(WHO)
    local = rows["optype"].isin(LOCAL)
    before = by_step["end"].cummax().groupby([rows["rank"], rows["step"]]).shift(1)
    # Between two local operations the time is the later one's, which it prepares.
    alone = ~local.groupby([rows["rank"], rows["step"]]).shift(-1, fill_value=False)
    after = by_step["start_ts"].shift(-1).where(alone)
    return rows.assign(
        start_ts=rows["start_ts"].mask(local & (before < rows["start_ts"]), before),
        end=rows["end"].mask(local & (after > rows["end"]), after),
    )


def _origins(ops: pd.DataFrame) -> pd.Series:
    """Seconds at which each step began, since the first operation of the run."""
    since = (ops["start_ns"] - ops["start_ns"].min()) * 1e-9
    origins: pd.Series = (since - ops["start_ts"]).groupby(ops["step"]).median()
    return origins


def _turned(rows: pd.DataFrame, origins: pd.Series) -> pd.DataFrame:
    """Steps from when the first worker has its gradients until all have the next ones."""
    steps = set(rows["step"])
    began = rows["step"].map(origins)
    rows = rows.assign(start_ts=rows["start_ts"] + began, end=rows["end"] + began)
    summed = rows[rows["optype"] == "grads-reduce-scatter"].groupby("step")["end"].min()
    after = rows["optype"].isin(AFTER_GRADIENTS)
    rows = rows.assign(step=rows["step"] + after)
    rows = rows[rows["step"].isin(steps)]
    zero = (rows["step"] - 1).map(summed)
    return rows.assign(start_ts=rows["start_ts"] - zero, end=rows["end"] - zero)[zero.notna()]


def _over_tp(rows: pd.DataFrame) -> pd.DataFrame:
    """Operations that every tp rank of the worker has."""
    ranks = rows.groupby(["dp_rank", "stage"])["tp_rank"].nunique().rename("whole")
    found = rows.groupby(WORKER_OP, as_index=False).agg(
        {"start_ts": "max", "end": "max", "rank": "min", "tp_rank": "nunique", "mc": "first",
         "gmc": "first", "mb_id": "first"}
    )  # fmt: skip
    found = found.join(ranks, on=["dp_rank", "stage"])
    found = found[found["tp_rank"] == found["whole"]]
    duration = (found["end"] - found["start_ts"]).clip(lower=0)
    return found.assign(duration=duration)[list(COLUMNS)]
