import numpy as np
import pandas as pd

from lockstep.dashboard.comparison import Nodes, moved, nodes, phases


def ranks(backward: float = 0.2, names: tuple[str, ...] = ("node-0", "node-1")) -> pd.DataFrame:
    return pd.DataFrame(
        {"node": list(names), "wall_seconds": 0.3 + backward, "forward_seconds": 0.1,
         "backward_seconds": backward, "checkpoint_seconds": np.nan}
    )  # fmt: skip


def test_nodes_that_only_one_run_had_are_named() -> None:
    told = nodes(ranks(), ranks(names=("node-1", "node-3")))
    assert Nodes(("node-0",), ("node-3",), 1) == told


def test_the_phase_that_grew_makes_up_the_change() -> None:
    one, other = ranks(), ranks(0.3)
    told = phases(one, other)
    assert ["forward", "backward"] == list(told["phase"])
    assert ("backward",) == moved(told, one, other)


def test_without_a_change_nothing_moved() -> None:
    assert () == moved(phases(ranks(), ranks()), ranks(), ranks())


def test_without_phases_there_are_none() -> None:
    bare = pd.DataFrame({"node": [], "wall_seconds": []})
    assert phases(bare, bare).empty
    assert () == moved(phases(bare, bare), bare, bare)
