"""GPUs by the numbers that ranks know them by: who scrapes may number them in another way.

CUDA_VISIBLE_DEVICES, MIG and exporters of other makers each count on their own; what all of them
agree on is the uuid.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.run import RankInfo

UUID = "uuid"


def as_ranks_number(samples: pd.DataFrame, ranks: Sequence[RankInfo]) -> pd.DataFrame:
    """The samples without their column `uuid`, `gpu` as the rank of that uuid has it.

    A series whose GPU no rank of the node has keeps its number; where a rank's GPU has the same
    one, it is another GPU's and left out; but not on a node where no uuid is a rank's, as where one
    side tells those of parts (MIG).
    """
    if UUID not in samples:
        return samples
    number = {
        (info.node, info.uuid): info.gpu for info in ranks if info.uuid and info.gpu is not None
    }
    told_of = set(zip(samples["node"], samples[UUID], strict=True))
    matched = {node for node, uuid in number if (node, uuid) in told_of}
    taken = {(info.node, info.gpu) for info in ranks if info.gpu is not None and info.uuid}
    told = samples.drop(columns=UUID)
    code, keys = pd.factorize(pd.MultiIndex.from_frame(samples[["node", UUID, "gpu"]]))
    gpus: list[int | None] = []
    kept: list[bool] = []
    for node, uuid, gpu in keys:
        mine = None if pd.isna(gpu) else int(gpu)
        named = mine is not None and isinstance(uuid, str)
        known = number.get((node, uuid)) if named else None
        gpus.append(mine if known is None else known)
        another = named and known is None and node in matched and (node, mine) in taken
        kept.append(not another)
    told["gpu"] = pd.array(gpus, dtype="Int32").take(code)
    return told[np.array(kept, dtype=bool)[code]].reset_index(drop=True)
