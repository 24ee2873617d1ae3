"""All-reduces of many sizes and, on request, the search for a slow link or node (MLBench 0a)."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lockstep.workloads.measure.probe.sweep import Sweep, planned
from lockstep.workloads.spec import RunSpec, SpecError, Training

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context, Trainable


PROBE_SECONDS = 60.0
"""A probe over slow links is long: with one, a run hangs only after so long without a step."""


class AllreduceTask:
    """See tasks.Task."""

    name = "allreduce"
    defaults = Training(
        model="all-reduce", data="none", micro_batch=1, sizes="1K:1M:6", repetitions=1
    )
    options = frozenset({"sizes", "repetitions", "dtype", "probe", "eval_every"})
    metrics = frozenset[str]()
    goals: Mapping[str, str] = MappingProxyType({})
    formula = "none"
    sample = "passes"

    def per_step(self, spec: RunSpec) -> int:
        """See Task."""
        return spec.batch

    def check(self, spec: RunSpec) -> RunSpec:
        """See Task; a probe without a period runs once, in the last step."""
        layout, training = spec.layout, spec.training
        if layout.tp * layout.pp > 1:
            raise SpecError("allreduce has all ranks in one group; leave --tp and --pp out")
        _sweep(spec)
        if training.eval_every and not training.probe:
            raise SpecError("--eval-every is how often allreduce probes; give --probe too")
        if not training.probe:
            return spec
        if layout.nodes < 2:
            raise SpecError("--probe looks for a slow link between nodes; give --nodes 2 or more")
        every = training.eval_every or spec.steps
        return replace(
            spec,
            training=replace(training, eval_every=every),
            hang_timeout=max(spec.hang_timeout, PROBE_SECONDS),
        )

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """See Task: there are no data."""
        return workspace

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """See Task."""
        sweep = _sweep(spec)
        return {
            "data": "synthetic: whole numbers",
            "formula": "algorithm bandwidth = bytes / mean seconds; bus bandwidth = that"
            " x 2 (ranks - 1) / ranks (nccl-tests)",
            "sizes": list(sweep.sizes),
            "dtype": sweep.dtype,
            "repetitions": sweep.repetitions,
        }

    def set_up(self, context: "Context") -> "Trainable[Any]":
        """See Task."""
        from lockstep.workloads.measure.probe.sweep_passes import SweepPasses

        return SweepPasses(context, _sweep(context.spec), probe=context.spec.training.probe)


def _sweep(spec: RunSpec) -> Sweep:
    training = spec.training
    return planned(training.sizes, training.repetitions, training.dtype, spec.layout.world)


TASK = AllreduceTask()
