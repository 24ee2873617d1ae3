"""What a rank trains: its stages, their gradients and optimizer, how a step runs, and its data."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lockstep.workloads.data.indexed import IndexedDataset, IndexedError, Samples
from lockstep.workloads.data.prepare import VALIDATION_SAMPLES, validation
from lockstep.workloads.loop.trainable import Counts, Update
from lockstep.workloads.measure.flops import per_token
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.models.optimizer import CLIP, Optimizer, Rate
from lockstep.workloads.parallel.comm import Collective, Comm, Segment
from lockstep.workloads.parallel.gradients import Accumulation, Gradients
from lockstep.workloads.parallel.mesh import Mesh
from lockstep.workloads.parallel.pipeline import Pipeline, build
from lockstep.workloads.parallel.sharded import ShardedOptimizer
from lockstep.workloads.parallel.tensor import TensorParallel
from lockstep.workloads.spec import RunSpec

WARMUP_RATE_STEPS = 20
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class ModelParts:
    """Everything of one rank that learns; see Trainable.

    Attributes:
        unseen: Validation data; None = no evaluation was asked for.
        over_ranks: Adds the losses of the replicas up.
        tells: Whether this rank knows the loss and keeps the log: last stage, first of the rest.
        counts: Sequences and tokens of its replica, on one rank of it; and this rank's share of its
            replica's model FLOPs.
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
    counts: Counts
    unseen: Samples | None
    over_ranks: Collective
    replica: int
    replicas: int

    def batch(self, step: int) -> NDArray[np.int64]:
        """Token ids, (sequences of the replica, sequence + 1).

        Raises:
            IndexedError: A token is outside the vocabulary, which tensor parallel would not notice.
        """
        first = step * self.samples_per_step + self.first_sample
        tokens = self.data.batch(first, self.replica_samples)
        vocabulary = self.chunks[0].config.vocabulary
        if tokens.min() < 0 or tokens.max() >= vocabulary:
            raise IndexedError(f"step {step} has a token outside 0 to {vocabulary - 1}")
        return tokens

    def train(self, batch: torch.Tensor) -> torch.Tensor | None:
        """See Trainable."""
        self.gradients.zero()
        return self.execution.step(batch[:, :-1], batch[:, 1:])

    def reduce(self) -> None:
        """See Trainable."""
        self.gradients.finish()

    def update(self, step: int) -> Update:
        """See Trainable."""
        norm = self.gradients.clip(CLIP)
        return Update(self.optimizer.step(step, norm), norm, self.optimizer.skipped)

    def evaluate(self) -> Mapping[str, float]:
        """See Trainable: loss and perplexity over the validation data."""
        if self.unseen is None:
            return {}
        device = next(self.chunks[0].parameters()).device
        rounds = max(1, VALIDATION_SAMPLES // (self.replica_samples * self.replicas))
        # Sum and number of the losses; one rank of a replica knows its loss, the others add 0.
        total = torch.zeros(2, dtype=torch.float64, device=device)
        for index in range(rounds):
            first = (index * self.replicas + self.replica) * self.replica_samples
            batch = torch.from_numpy(self.unseen.batch(first, self.replica_samples)).to(device)
            loss = self.execution.evaluate(batch[:, :-1], batch[:, 1:])
            if loss is not None and self.counts.samples:
                total += torch.stack((loss.double(), torch.ones_like(loss).double()))
        self.over_ranks.all_reduce(total)
        mean = float(total[0] / total[1])
        return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}

    def results(self) -> dict[str, Any]:
        """See Trainable."""
        return {}


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
        counts=Counts(
            training.samples if counts else 0,
            tokens if counts else 0,
            per_token(config) * tokens / (layout.pp * layout.tp),
        ),
        unseen=Samples(IndexedDataset(validation(dataset)), config.sequence, spec.seed)
        if training.eval_every
        else None,
        over_ranks=comm.collective("world-all-reduce", "world", "evaluation"),
        replica=dp,
        replicas=layout.dp,
    )
