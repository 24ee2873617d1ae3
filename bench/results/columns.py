"""The columns of a result, in their order; what a workload measures beside them follows by name."""

from lockstep.collector.contract.archive import Column
from lockstep.collector.contract.words import PHASES

Value = str | int | float | bool | None | list[str] | list[float]
"""Of a cell of the table; None = not known."""
METRIC_PREFIX = "metric_"
"""Of columns that a workload brings: its goal's metric, a bandwidth, what a step of yours wrote."""

COLUMNS: tuple[Column, ...] = (
    Column("bench", "string", "", "name of the benchmark"),
    Column("cell", "string", "", "which cell of its matrix"),
    Column("repeat", "int64", "", "of the same cell, from 0"),
    Column("status", "string", "", "finished, failed, timeout or stopped"),
    Column("run", "string", "", "run id; null = none was started"),
    Column("archive", "string", "", "where its archive lies"),
    Column("started", "string", "", "UTC, ISO 8601"),
    Column("ended", "string", "", "likewise"),
    Column("queued_seconds", "double", "seconds", "it waited in --queue; null = in none"),
    # The workload: what must be the same for two results to be compared.
    Column("workload", "string", "", "gpt, resnet, logreg, allreduce, or exec"),
    Column("settings", "string", "", "all else that was asked for, as JSON with sorted keys"),
    Column("launcher", "string", "", "local, mpirun, kubernetes or argo"),
    Column("nodes", "int64", "", "how many"),
    Column("ranks", "int64", "", "of all nodes"),
    Column("dp", "int64", "", "data-parallel size"),
    Column("tp", "int64", "", "tensor-parallel size"),
    Column("pp", "int64", "", "pipeline stages"),
    Column("seed", "int64", "", "of weights, data and noise"),
    Column("emulated_devices", "bool", "", "whether devices were emulated"),
    Column("simulated", "list<string>", "", "what of the telemetry was simulated"),
    # How fast.
    Column("steps", "int64", "", "that were measured, those that are slow by design left out"),
    Column("step_seconds", "double", "seconds", "median over steps of the median over ranks"),
    Column("step_seconds_error", "double", "seconds", "standard error of that, by blocks of steps"),
    Column("samples_per_second", "double", "", "of all ranks"),
    Column("tokens_per_second", "double", "", "of all ranks"),
    Column("flops_per_second", "double", "", "model FLOPs of all ranks"),
    Column("wall_seconds", "double", "seconds", "from the first step's start to the last end"),
    Column("gpu_hours", "double", "hours", "wall time times ranks"),
    *(
        Column(f"{phase}_seconds", "double", "seconds", f"phase {phase} in a step, mean over ranks")
        for phase in PHASES
    ),
    Column("computation_share", "double", "", "own time over the step, mean over ranks"),
    Column("communication_share", "double", "", "the rest of the step; 0 with one rank"),
    Column("rank_own_seconds", "list<double>", "seconds", "median own time in a step, by rank"),
    Column("rank_own_error", "list<double>", "seconds", "standard error of each, likewise"),
    Column("rank_nodes", "list<string>", "", "node of each rank"),
    # How well.
    Column("loss", "double", "nats", "training loss of the last step"),
    Column("goal", "string", "", "as METRIC>=VALUE; null = none was set"),
    Column("time_to_goal_seconds", "double", "seconds", "of training; null = not reached"),
    # What was found.
    Column("verdict", "string", "", "healthy, degraded or unknown"),
    Column("sentence", "string", "", "the verdict in words"),
    Column("culprits", "list<string>", "", "slow by their own doing, as `rank 2: thermal`"),
    Column("reason", "string", "", "why it did not finish; null = it did"),
    Column("failed_ranks", "list<string>", "", "as `rank 3 on node-1`"),
    Column("last_lines", "string", "", "of the log of the first of them"),
    # On what.
    Column("hardware", "string", "", "GPU model, or CPU model and cores; several joined by commas"),
    Column("driver", "string", "", "GPU driver"),
    Column("cuda", "string", "", "API version of the driver"),
    Column("vbios", "string", "", "of the GPUs"),
    Column("gpu_firmware", "string", "", "as GPUs tell it"),
    Column("nic_firmware", "string", "", "of InfiniBand and RoCE cards"),
    Column("nccl", "string", "", "as torch was built with, or as NCCL_VERSION says"),
    Column("kernel", "string", "", "of the nodes"),
    Column("torch", "string", "", "version"),
    Column("python", "string", "", "version"),
    Column("lockstep", "string", "", "version"),
    Column("image", "string", "", "as it was asked for"),
    Column("image_digest", "string", "", "as the cluster pulled it, or LOCKSTEP_IMAGE_DIGEST"),
    Column("commit", "string", "", "of the code beside the SPEC; -dirty: files differ from it"),
    Column("node_names", "list<string>", "", "where it ran"),
    Column("rank_versions", "string", "", "versions that differ between ranks, as JSON"),
)  # fmt: skip

VERSIONS: tuple[str, ...] = (
    "driver", "cuda", "vbios", "gpu_firmware", "nic_firmware", "nccl", "kernel", "torch", "python",
    "lockstep", "image", "image_digest", "commit",
)  # fmt: skip
"""Columns of software, in the order in which one suspects them."""
