"""From the words of the command line to a RunSpec, or a sentence about what is wrong."""

import math
from datetime import UTC, datetime
from difflib import get_close_matches

from collector.contract.words import ExitCode
from lockstep.output import fail
from workloads.faults.capabilities import available
from workloads.faults.plan import FaultError, parse
from workloads.spec import LAUNCHERS, MAX_LOCAL_RANKS, WORKLOADS, Layout, RunSpec, SpecError

MIN_STEPS = 10


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
    launcher: str = "local",
    pace: bool = True,
    device_noise: float = 0.02,
    hang_timeout: float = 10.0,
    token: str,
) -> RunSpec:
    """A checked spec.

    Args:
        token: The four hex digits that make the run id unique.

    Raises:
        CommandError: 64, with the setting that is wrong and what would be right.
    """
    _one_of("workload", workload, WORKLOADS)
    _one_of("launcher", launcher, LAUNCHERS)
    if tp != 1 or pp != 1:
        fail(ExitCode.USAGE, f"tp {tp}, pp {pp}: this version trains data parallel; both must be 1")
    if steps < MIN_STEPS:
        fail(ExitCode.USAGE, f"--steps {steps} is too few; at least {MIN_STEPS}")
    if seed < 0:
        fail(ExitCode.USAGE, f"--seed {seed} is negative; give a whole number from 0")
    if not 0.0 <= device_noise <= 0.5:
        fail(ExitCode.USAGE, f"--device-noise {device_noise:g} is not a ratio from 0 to 0.5")
    if not (math.isfinite(hang_timeout) and hang_timeout >= 1.0):
        fail(ExitCode.USAGE, f"--hang-timeout {hang_timeout:g} must be at least 1 second")
    try:
        layout = Layout(nodes, ranks_per_node, nodes * ranks_per_node if dp is None else dp, tp, pp)
        if layout.world > MAX_LOCAL_RANKS:
            fail(
                ExitCode.USAGE,
                f"{layout.world} ranks are too many for one machine; at most {MAX_LOCAL_RANKS}",
            )
        can = available(pace=pace)
        planned = tuple(
            parse(spec, nodes=nodes, ranks_per_node=ranks_per_node, steps=steps, available=can)
            for spec in faults
        )
    except (SpecError, FaultError) as error:
        fail(ExitCode.USAGE, str(error))
    return RunSpec(
        run=f"{workload}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{token}",
        workload=workload,
        layout=layout,
        steps=steps,
        seed=seed,
        faults=planned,
        launcher=launcher,
        pace=pace,
        device_noise=device_noise,
        hang_timeout=hang_timeout,
    )


def _one_of(what: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        near = get_close_matches(word, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        fail(ExitCode.USAGE, f"unknown {what} {word!r}; one of {', '.join(known)}{hint}")
