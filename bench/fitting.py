"""What can never run is refused before anything starts, in seconds, with the capacity."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from lockstep.bench.plan import CLUSTER, Cell, options
from lockstep.bench.processes import container_runtime
from lockstep.bench.spec import Bench, BenchError, UnreachableError
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import CommandError

if TYPE_CHECKING:
    from lockstep.workloads.launch.kubernetes.facts import Facts
    from lockstep.workloads.spec import RunSpec

PARAMETERS = {"context": "kube_context", "exec": "program", "output": "form"}
"""Options of `lockstep run` that its parameters call otherwise."""
_Number = TypeVar("_Number", int, float)


def refuse_what_cannot_run(
    bench: Bench,
    cells: Sequence[Cell],
    show: Callable[[str, str], None],
    known: Collection[str],
    here: Path = Path(),
) -> None:
    """Plan every cell as `lockstep run` would, and ask the cluster, if there is one.

    Args:
        cells: That are still to be run.
        known: Options of `lockstep run`, without dashes.
        here: Folder of the benchmark's file.

    Raises:
        BenchError: One can never run; says which, and the capacity.
        UnreachableError: Not now: a cluster does not answer, or lacks what the run needs.
    """
    runs_containers = [task for task in bench.tasks if task.container is not None]
    if cells and runs_containers and container_runtime() is None:
        raise BenchError(
            f"step {runs_containers[0].name} is a container, and there is neither docker nor podman"
            " here; install one, or give a command"
        )
    for cell in cells:
        for name in {**bench.options, **cell.settings}:
            if name not in known:
                near = get_close_matches(name, known, 1)
                raise BenchError(
                    f"cell {cell.name} has an option {name!r}, which `lockstep run` does not have"
                    + (f"; did you mean {near[0]}?" if near else "")
                )
    seen: set[str] = set()
    known_facts: dict[tuple[object, ...], Facts] = {}
    for cell in cells:
        if cell.name in seen:
            continue
        seen.add(cell.name)
        show("looking whether it fits", cell.name)
        try:
            if cell.launcher not in CLUSTER:
                _refuse_what_others_take(bench, cell)
            if cell.workload.command:
                continue
            told = options(bench, cell, here)
            spec = _plan(cell, told)
            if cell.launcher in CLUSTER:
                _ask_cluster({**told, "timeout": bench.timeout}, cell, spec, known_facts)
        except CommandError as error:
            kind = UnreachableError if error.code == ExitCode.UNREACHABLE else BenchError
            raise kind(f"cell {cell.name} cannot run: {error.sentence}") from error
        except (ValueError, TypeError) as error:  # a value of a type that no option has
            raise BenchError(f"cell {cell.name} cannot run: {error}") from error


def _refuse_what_others_take(bench: Bench, cell: Cell) -> None:
    """Raises CommandError for options that only a cluster, or only workloads of ours, take."""
    from lockstep.runs.cluster_options import refuse_without_cluster
    from lockstep.runs.external_program import refuse_others

    told = [*bench.options, *cell.settings, *(["image"] if cell.image else [])]
    given = {PARAMETERS.get(each, each.replace("-", "_")): f"--{each}" for each in told}
    refuse_without_cluster(cell.launcher, given)
    if cell.workload.command:
        refuse_others(given)


def _ask_cluster(
    told: dict[str, Any], cell: Cell, spec: "RunSpec", known: "dict[tuple[object, ...], Facts]"
) -> None:
    """As `lockstep run` asks it before it creates anything; others may have ended by then.

    Args:
        told: Its options.
        known: What was asked for cells before, and is not asked again.

    Raises:
        CommandError: It would refuse, or the cluster does not answer.
        ValueError: An option is no number, and must be one.
    """
    from lockstep.runs import cluster_options, on_cluster
    from lockstep.runs.cluster_options import ClusterOptions

    if cell.image:
        told["image"] = cell.image
    kinds, given = get_type_hints(ClusterOptions), dict[str, Any]()
    for name in cluster_options.ONLY:
        option = "context" if name == "kube_context" else name.replace("_", "-")
        if option in told:
            value = _typed(option, told[option], kinds[name])
            given[name] = Path(str(value)) if name == "kubeconfig" else value
    settings = cluster_options.settings(cell.launcher, ClusterOptions(**given))
    place = given.get("kubeconfig"), given.get("kube_context")
    asked = *place, replace(settings, image="", analyzer_image="", submission="", submitted="")
    if asked not in known:
        cluster = on_cluster.connect(*place)
        try:
            known[asked] = on_cluster.looked_at(cluster, settings)
        finally:
            cluster.close()
    on_cluster.refuse(known[asked], spec, settings, now=False)


def _plan(cell: Cell, told: Mapping[str, Any]) -> "RunSpec":
    """As `lockstep run` plans it.

    Raises:
        CommandError: It would refuse.
        ValueError: An option is no number, and must be one.
    """
    from lockstep.runs.planning import plan, with_training_settings
    from lockstep.workloads.spec import DEVICE_SECONDS, Training

    told = {key.replace("-", "_"): value for key, value in told.items()}
    kinds = get_type_hints(Training)
    fields = {
        key: _typed(key, value, kinds[key]) for key, value in told.items() if key in kinds
    }  # fmt: skip
    hostfile = told.get("hostfile")
    return plan(
        cell.workload.workload, nodes=cell.nodes, ranks_per_node=cell.ranks_per_node,
        **cell.sizes, steps=_number("steps", told, 250, int), seed=_number("seed", told, 0, int),
        faults=_listed(told.get("fault")), disturbances=_listed(told.get("disturb")),
        network=str(told.get("network", "auto")),
        training=with_training_settings(cell.workload.workload, fields),
        launcher=cell.launcher, hostfile=None if hostfile is None else Path(str(hostfile)),
        device=str(told.get("device", "auto")),
        pace=None if "pace" not in told else told["pace"] in ("on", True),
        device_noise=_number("device_noise", told, 0.02, float),
        device_seconds=_number("device_seconds", told, DEVICE_SECONDS, float),
        hang_timeout=_number("hang_timeout", told, 10.0, float),
        record=tuple(_listed(told.get("record"))), token="0000",  # noqa: S106 - no secret
    )  # fmt: skip


def _typed(name: str, value: Any, kind: Any) -> Any:
    """A value of the file as the option takes it from the command line."""
    for each in (int, float):
        if kind in (each, each | None):
            return _number(name, {name: value}, value, each)
    return value


def _number(name: str, settings: Mapping[str, Any], default: Any, kind: type[_Number]) -> _Number:
    value = settings.get(name, default)
    try:
        return kind(str(value))
    except ValueError:
        what = "whole number" if kind is int else "number"
        option = name.replace("_", "-")
        raise ValueError(f"{option} is {value!r:.60}; it must be a {what}") from None


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
