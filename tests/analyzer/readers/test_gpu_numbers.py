"""A GPU is known by its uuid: who scrapes may number GPUs in another way than ranks do."""

import pandas as pd

from lockstep.analyzer.read.ranks import as_ranks_number
from lockstep.analyzer.shapes.run import RankInfo

RANKS = tuple(
    RankInfo(rank=n, node="node-0", gpu=n, uuid=f"GPU-{n}", local_rank=n, dp=n, pp=0, tp=0)
    for n in range(2)
)


def samples(*rows):
    frame = pd.DataFrame(rows, columns=["node", "gpu", "uuid", "value"])
    return frame.astype({"gpu": "Int32"})


def test_samples_have_the_number_of_the_rank_with_their_uuid():
    told = as_ranks_number(samples(("node-0", 1, "GPU-0", 5.0), ("node-0", 0, "GPU-1", 6.0)), RANKS)

    assert [(0, 5.0), (1, 6.0)] == list(zip(told["gpu"], told["value"], strict=True))
    assert "uuid" not in told


def test_what_is_about_no_gpu_or_tells_no_uuid_stays_as_it_is():
    told = as_ranks_number(samples(("node-0", None, None, 1.0), ("node-0", 1, None, 2.0)), RANKS)

    assert [None, 1] == [None if pd.isna(gpu) else gpu for gpu in told["gpu"]]


def test_a_gpu_of_no_rank_is_not_taken_for_the_rank_s_of_the_same_number():
    rows = [("node-0", 0, "GPU-0", 4.0), ("node-0", 1, "GPU-9", 5.0), ("node-0", 7, "GPU-8", 6.0)]

    assert [0, 7] == as_ranks_number(samples(*rows), RANKS)["gpu"].tolist()


def test_where_no_uuid_of_a_node_is_a_rank_s_the_numbers_stand():
    """One side tells the uuids of parts (MIG), or leaves the prefix out."""
    told = as_ranks_number(samples(("node-0", 1, "MIG-7", 5.0)), RANKS)

    assert [1] == told["gpu"].tolist()


def test_the_same_uuid_on_another_node_is_nobody_s():
    told = as_ranks_number(samples(("node-9", 1, "GPU-0", 5.0)), RANKS)

    assert [1] == told["gpu"].tolist()


def test_without_uuids_nothing_is_done():
    plain = samples(("node-0", 1, None, 5.0)).drop(columns="uuid")

    assert as_ranks_number(plain, RANKS) is plain
