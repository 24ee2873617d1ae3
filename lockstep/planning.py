"""From the words of the command line to a RunSpec, or a sentence about what is wrong."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

from collector.contract.words import ExitCode
from lockstep.output import fail
from workloads.data.indexed import IndexedError
from workloads.data.prepare import check
from workloads.faults.capabilities import available
from workloads.faults.plan import FaultError, parse
from workloads.fit import require
from workloads.gpus import torch_build, visible, why_not
from workloads.models.configs import CONFIGS, ConfigError
from workloads.resume import CheckpointError, latest, usable
from workloads.spec import (
    LAUNCHERS,
    MAX_LOCAL_RANKS,
    WORKLOADS,
    Layout,
    RunSpec,
    SpecError,
    Training,
)

MIN_STEPS = 10
DEFAULTS = Training()


def plan(
    workload: str,
    *,
    nodes: int,
    ranks_per_node: int,
    dp: int | None = None,
    tp: int = 1,
    pp: int = 1,
    steps: int,
    seed: int,
    faults: list[str],
    training: Training = DEFAULTS,
    launcher: str = "local",
    device: str = "cpu",
    pace: bool | None = True,
    device_noise: float = 0.02,
    hang_timeout: float = 10.0,
    token: str,
) -> RunSpec:
    """A checked spec.

    Args:
        device: `cpu`, `cuda`, or `auto`: GPUs where there are enough, nothing is injected and no
            device is to be emulated.
        pace: Whether devices are emulated; None = on CPU.
        token: The four hex digits that make the run id unique.

    Raises:
        CommandError: 64, with the setting that is wrong and what would be right; 65, a dataset or
            a checkpoint that cannot be read.
    """
    _one_of("workload", workload, WORKLOADS)
    _one_of("launcher", launcher, LAUNCHERS)
    _one_of("model", training.model, tuple(CONFIGS))
    if steps < MIN_STEPS:
        fail(ExitCode.USAGE, f"--steps {steps} is too few; at least {MIN_STEPS}")
    _check_numbers(training)
    if seed < 0:
        fail(ExitCode.USAGE, f"--seed {seed} is negative; give a whole number from 0")
    if not 0.0 <= device_noise <= 0.5:
        fail(ExitCode.USAGE, f"--device-noise {device_noise:g} is not a ratio from 0 to 0.5")
    if not (math.isfinite(hang_timeout) and hang_timeout >= 1.0):
        fail(ExitCode.USAGE, f"--hang-timeout {hang_timeout:g} must be at least 1 second")
    try:
        world = nodes * ranks_per_node
        replicas = max(1, world // max(1, tp * pp)) if dp is None else dp
        layout = Layout(nodes, ranks_per_node, replicas, tp, pp)
        training = _filled(training, layout)
        if layout.world > MAX_LOCAL_RANKS:
            fail(
                ExitCode.USAGE,
                f"{layout.world} ranks are too many for one machine; at most {MAX_LOCAL_RANKS}",
            )
        device = _device(device, layout.world, emulated=pace is True, faults=bool(faults))
        pace = device == "cpu" if pace is None else pace
        require(layout, training, _memory_of_a_rank(layout) if device == "cpu" else None)
        check(training)
        training = _resumed(training, layout, steps)
        can = available(pace=pace)
        planned = tuple(
            parse(spec, nodes=nodes, ranks_per_node=ranks_per_node, steps=steps, available=can)
            for spec in faults
        )
    except (SpecError, FaultError, ConfigError) as error:
        fail(ExitCode.USAGE, str(error))
    except IndexedError as error:
        fail(ExitCode.BAD_INPUT, f"--data: {error}")
    return RunSpec(
        run=f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{token}",
        workload=workload,
        layout=layout,
        steps=steps,
        seed=seed,
        training=training,
        faults=planned,
        launcher=launcher,
        device=device,
        pace=pace,
        device_noise=device_noise,
        hang_timeout=hang_timeout,
    )


def _device(wish: str, world: int, *, emulated: bool, faults: bool) -> str:
    """`cpu` or `cuda`."""
    _one_of("device", wish, ("auto", "cpu", "cuda"))
    if wish == "cpu":
        return wish
    why = why_not(world, visible(), torch_build())
    if why is None and emulated:
        why = "--pace on emulates devices, which a run on GPUs does not"
    if why is None and faults:
        why = "faults are injected into runs on CPU only"
    if why is None:
        return "cuda"
    if wish == "auto":
        return "cpu"
    return fail(ExitCode.USAGE, f"--device cuda: {why}; give --device cpu")


def _check_numbers(training: Training) -> None:
    for name, least in (
        ("micro_batch", 1), ("micro_batches", 0), ("virtual_stages", 1), ("checkpoint_every", 0),
    ):  # fmt: skip
        value = getattr(training, name)
        if value < least:
            fail(
                ExitCode.USAGE,
                f"--{name.replace('_', '-')} {value} is too few; at least {least}",
            )
    rate = training.learning_rate
    if not (math.isfinite(rate) and rate > 0.0):
        fail(ExitCode.USAGE, f"--learning-rate {rate:g} must be above 0")


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
        fail(ExitCode.BAD_INPUT, str(error))
    if seen >= steps:
        fail(
            ExitCode.USAGE,
            f"checkpoint {folder} has seen {seen} steps already; give --steps above {seen}",
        )
    return replace(training, resume=str(folder))


def _memory_of_a_rank(layout: Layout) -> int | None:
    """Bytes that this machine can give each rank; None where it does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 // layout.world if found else None


def _one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        fail(ExitCode.USAGE, f"unknown {what} {word!r}; one of {', '.join(known)}{hint}")
