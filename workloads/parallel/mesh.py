"""Where a rank stands in the grid of ranks, and its process groups."""

from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lockstep.workloads.spec import Layout


@dataclass(frozen=True, slots=True)
class Mesh:
    """The groups of one rank.

    Attributes:
        grid: torch's mesh with the axes pp, dp, tp; rank = (pp * DP + dp) * TP + tp.
        groups: Process groups by name of words.GROUPS.
        ends: The first and last stage's ranks of this dp and tp, which share the embedding in a
            tied model; None on other ranks and without a pipeline.
    """

    grid: DeviceMesh
    groups: dict[str, dist.ProcessGroup]
    ends: dist.ProcessGroup | None


def build(layout: Layout, device: str = "cpu") -> Mesh:
    """The groups of this rank; every rank of the run calls it once, after joining the run."""
    grid = init_device_mesh(
        device, (layout.pp, layout.dp, layout.tp), mesh_dim_names=("pp", "dp", "tp")
    )
    world = dist.group.WORLD
    assert world is not None
    groups = {name: grid.get_group(name) for name in ("pp", "dp", "tp")}
    return Mesh(grid, {"world": world, **groups}, _ends(layout))


def _ends(layout: Layout) -> dist.ProcessGroup | None:
    """One group for each dp and tp; every rank takes part in making every group."""
    if layout.pp == 1:
        return None
    stage = layout.dp * layout.tp
    mine = None
    for position in range(stage):
        group = dist.new_group([position, (layout.pp - 1) * stage + position])
        if dist.get_rank(group) >= 0:
            mine = group
    return mine
