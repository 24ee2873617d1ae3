"""What a rank trains: its stages, their gradients and optimizer, how a step runs, and its data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from workloads.comm import Comm
from workloads.data.indexed import IndexedDataset, IndexedError
from workloads.data.loader import Batch
from workloads.data.samples import Samples
from workloads.flops import per_token
from workloads.mesh import Mesh
from workloads.models.gpt import Gpt, initialize
from workloads.optimizer import Optimizer, Rate
from workloads.parallel import Segment
from workloads.parallel.accumulation import Accumulation
from workloads.parallel.gradients import Gradients
from workloads.parallel.pipeline import Pipeline, build
from workloads.parallel.sharded import ShardedOptimizer
from workloads.parallel.tensor import TensorParallel
from workloads.spec import RunSpec

WARMUP_RATE_STEPS = 20
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class ModelParts:
    """Everything of one rank that learns.

    Attributes:
        tells: Whether this rank knows the loss and keeps the log: last stage, first of the rest.
        samples: Sequences that this rank counts in a step: those of its replica, on one rank of it.
        tokens: Tokens, likewise.
        flops: This rank's share of its replica's model FLOPs in a step.
    """

    chunks: Sequence[Gpt]
    gradients: Gradients
    optimizer: Optimizer
    execution: Pipeline | Accumulation
    data: Samples
    samples_per_step: int
    first_sample: int
    replica_samples: int
    tells: bool
    samples: int
    tokens: int
    flops: float

    def batch(self, step: int) -> Batch:
        """Token ids, (sequences of the replica, sequence + 1).

        Raises:
            IndexedError: A token is outside the vocabulary, which tensor parallel would not notice.
        """
        first = step * self.samples_per_step + self.first_sample
        found = self.data.batch(first, self.replica_samples)
        vocabulary = self.chunks[0].config.vocabulary
        if found.min() < 0 or found.max() >= vocabulary:
            raise IndexedError(f"step {step} has a token outside 0 to {vocabulary - 1}")
        return found


def set_up(
    spec: RunSpec, rank: int, mesh: Mesh, comm: Comm, dataset: Path, segment: Segment,
    computed: Callable[[float], None] = lambda _share: None,
    device: torch.device = CPU,
) -> ModelParts:  # fmt: skip
    """The parts of one rank.

    Args:
        computed: See OverlappedBuckets.
        device: Where the model is.

    Raises:
        IndexedError: The dataset cannot be read.
    """
    training, layout = spec.training, spec.layout
    dp, pp, tp = layout.coordinates(rank)
    config = training.config
    sequence_parallel = training.sequence_parallel and layout.tp > 1
    parallel = TensorParallel(layout.tp, tp, sequence_parallel, comm)
    chunks = build(
        config, parallel, layout.pp, pp, training.virtual_stages, recompute=training.recompute
    )
    for chunk in chunks:
        initialize(chunk, spec.seed, parallel)
        chunk.to(device)
    gradients = Gradients(
        chunks, parallel, mesh, comm, backwards=training.micro_batches,
        sharded=training.sharded_optimizer, computed=computed,
    )  # fmt: skip
    rate = Rate(training.learning_rate, WARMUP_RATE_STEPS, spec.steps)
    optimizer = (
        ShardedOptimizer(gradients.shards, rate)
        if gradients.shards
        else Optimizer(gradients.parameters, rate)
    )
    execution: Pipeline | Accumulation
    if layout.pp == 1:
        execution = Accumulation(chunks[0], training.micro_batches, segment)
    else:
        execution = Pipeline(
            chunks, parallel, comm, mesh.groups["pp"],
            micro_batches=training.micro_batches, micro_batch=training.micro_batch,
            segment=segment,
        )  # fmt: skip
    counts = pp == layout.pp - 1 and tp == 0
    tokens = training.samples * config.sequence
    return ModelParts(
        chunks=chunks,
        gradients=gradients,
        optimizer=optimizer,
        execution=execution,
        data=Samples(IndexedDataset(dataset), config.sequence, spec.seed),
        samples_per_step=training.samples * layout.dp,
        first_sample=training.samples * dp,
        replica_samples=training.samples,
        tells=counts and dp == 0,
        samples=training.samples if counts else 0,
        tokens=tokens if counts else 0,
        flops=per_token(config) * tokens / (layout.pp * layout.tp),
    )
