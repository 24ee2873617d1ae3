"""GPT-3 and Llama, Megatron-style: every layout of pipeline, data and tensor parallel."""

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lockstep.workloads.data.indexed import IndexedError
from lockstep.workloads.data.prepare import check, least_loss, prepared
from lockstep.workloads.loop.resume import CheckpointError, latest, usable
from lockstep.workloads.measure.flops import FORMULA
from lockstep.workloads.models.configs import CONFIGS
from lockstep.workloads.models.fit import require
from lockstep.workloads.spec import (
    CLUSTER_LAUNCHERS,
    DataError,
    Layout,
    RunSpec,
    SpecError,
    Training,
    one_of,
)

if TYPE_CHECKING:
    from lockstep.workloads.loop.trainable import Context, Trainable


class GptTask:
    """See tasks.Task."""

    name = "gpt"
    defaults = Training(micro_batches=0)
    options = frozenset(field.name for field in fields(Training)) - {
        "sizes", "repetitions", "dtype", "probe",
    }  # fmt: skip
    metrics = frozenset({"loss", "perplexity"})
    goals: Mapping[str, str] = MappingProxyType({})
    formula = FORMULA
    sample = "tokens"

    def per_step(self, spec: RunSpec) -> int:
        """See Task."""
        return spec.batch * spec.training.config.sequence

    def check(self, spec: RunSpec) -> RunSpec:
        """See Task; also the micro-batches a pipeline needs, and the checkpoint of a folder."""
        training, layout = spec.training, spec.layout
        one_of("model", training.model, tuple(CONFIGS))
        training = _filled(training, layout)
        require(layout, training, memory_of_a_rank(layout) if spec.device == "cpu" else None)
        try:
            check(training)
        except IndexedError as error:
            raise DataError(f"--data: {error}") from error
        if spec.launcher not in CLUSTER_LAUNCHERS:  # where the run's own launcher looks, in a pod
            training = _resumed(training, layout, spec.steps)
        return replace(spec, training=training)

    def prepare(self, spec: RunSpec, workspace: Path) -> Path:
        """See Task: the indexed dataset, without `.bin` and `.idx`."""
        return prepared(spec, workspace)

    def about(self, spec: RunSpec) -> dict[str, Any]:
        """See Task."""
        least = least_loss(spec)
        return {
            "data": spec.training.data if least is None else f"synthetic: {spec.training.data}",
            "formula": self.formula,
            "entropy_rate_nats": least,
        }

    def set_up(self, context: "Context") -> "Trainable[Any]":
        """See Task."""
        from lockstep.workloads.models.gpt_setup import set_up

        return set_up(
            context.spec, context.rank, context.mesh, context.comm, context.data,
            context.segment, context.computed, context.device,
        )  # fmt: skip


def _filled(training: Training, layout: Layout) -> Training:
    """With as many micro-batches as the pipeline needs, where nobody said how many."""
    if training.micro_batches:
        return training
    stages = layout.pp * training.virtual_stages
    return replace(training, micro_batches=1 if layout.pp == 1 else stages)


def _resumed(training: Training, layout: Layout, steps: int) -> Training:
    """With the very checkpoint that is resumed, where a folder of several was named."""
    if training.resume is None:
        return training
    try:
        folder = latest(Path(training.resume))
        seen = usable(folder, training.config, training.samples * layout.dp).step
    except CheckpointError as error:
        raise DataError(str(error)) from error
    if seen >= steps:
        raise SpecError(
            f"checkpoint {folder} has seen {seen} steps already; give --steps above {seen}"
        )
    return replace(training, resume=str(folder))


def memory_of_a_rank(layout: Layout) -> int | None:
    """Bytes that this machine can give each rank; None where it does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 // layout.world if match else None


TASK = GptTask()
