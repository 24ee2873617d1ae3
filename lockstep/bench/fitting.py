"""What can never run is refused before anything starts, in seconds, with the capacity."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lockstep.bench.plan import CLUSTER, Cell
from lockstep.bench.processes import container_runtime
from lockstep.bench.spec import Bench, BenchError
from lockstep.output import CommandError


def refuse_what_cannot_run(
    bench: Bench, cells: Sequence[Cell], show: Callable[[str, str], None]
) -> None:
    """Plan every cell as `lockstep run` would, and ask the cluster, if there is one.

    Raises:
        BenchError: One can never run; says which, and the capacity.
    """
    runs_containers = [task for task in bench.tasks if task.container is not None]
    if runs_containers and bench.launcher not in CLUSTER and container_runtime() is None:
        raise BenchError(
            f"step {runs_containers[0].name} is a container, and there is neither docker nor podman"
            " here; install one, give a command, or run the benchmark on a cluster"
        )
    seen = set()
    for cell in cells:
        if cell.repeat or cell.workload.command:
            continue
        key = (cell.name,)
        if key in seen:
            continue
        seen.add(key)
        show("looking whether it fits", cell.name)
        try:
            _plan(bench, cell)
        except CommandError as error:
            raise BenchError(f"cell {cell.name} cannot run: {error.sentence}") from error


def _plan(bench: Bench, cell: Cell) -> None:
    """As `lockstep run` plans it.

    Raises:
        CommandError: It would refuse.
    """
    from lockstep.planning import plan, with_training_settings
    from workloads.spec import Training

    told: dict[str, Any] = {
        key.replace("-", "_"): value for key, value in {**bench.options, **cell.settings}.items()
    }
    fields = {key: value for key, value in told.items() if key in Training.__dataclass_fields__}
    hostfile = told.get("hostfile")
    plan(
        cell.workload.workload, nodes=cell.nodes, ranks_per_node=cell.ranks_per_node,
        **cell.sizes, steps=int(told.get("steps", 250)), seed=int(told.get("seed", 0)),
        faults=_listed(told.get("fault")), disturbances=_listed(told.get("disturb")),
        network=str(told.get("network", "auto")),
        training=with_training_settings(cell.workload.workload, fields),
        launcher=cell.launcher, hostfile=None if hostfile is None else Path(str(hostfile)),
        device=str(told.get("device", "auto")),
        pace=None if "pace" not in told else told["pace"] in ("on", True),
        device_noise=float(told.get("device_noise", 0.02)),
        hang_timeout=float(told.get("hang_timeout", 10.0)),
        record=tuple(_listed(told.get("record"))), token="0000",  # noqa: S106 - no secret
    )  # fmt: skip


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
