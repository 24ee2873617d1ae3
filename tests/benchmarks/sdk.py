"""What lockstep.recorder costs a program: CPU of its calls, recording and without Lockstep."""

import tempfile
from collections.abc import Callable
from itertools import repeat
from statistics import median
from time import thread_time_ns

import lockstep
from lockstep.workloads.sdk.recorder import Recorder

ROUNDS, CALLS = 15, 2000
PHASES, COLLECTIVES = 4, 1
STEP_SECONDS = 0.040
GOALS = {"bound_percent_of_40_ms_step": 0.5, "without_lockstep_step_microseconds": 2.0}


def main() -> dict[str, float]:
    """Microseconds of thread CPU; the bound is a step with four phases and one collective."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        recorder = lockstep.recorder(environment={"LOCKSTEP_DIR": folder})
        assert recorder.active
        costs = {name: _cost(call) for name, call in _calls(recorder).items()}
        recorder.close()  # type: ignore[attr-defined]
    silent = {name: _cost(call) for name, call in _calls(Recorder()).items()}
    bound = costs["step"] + PHASES * costs["phase"] + COLLECTIVES * costs["collective"]
    return {
        **{f"{name}_microseconds": cost * 1e6 for name, cost in costs.items()},
        **{f"without_lockstep_{name}_microseconds": cost * 1e6 for name, cost in silent.items()},
        "bound_microseconds_per_step": bound * 1e6,
        "bound_percent_of_40_ms_step": 100 * bound / STEP_SECONDS,
    }


def _calls(recorder: Recorder) -> dict[str, Callable[[], object]]:
    items = iter(recorder.steps(repeat(0)))

    def phase() -> None:
        with recorder.phase("forward"):
            pass

    def collective() -> None:
        with recorder.collective("dp", bytes=4096):
            pass

    def step() -> None:
        next(items)
        recorder.tell(loss=1.0, samples=4)

    return {"step": step, "phase": phase, "collective": collective}


def _cost(call: Callable[[], object]) -> float:
    """Thread CPU seconds of one call, the loop included: median over rounds."""
    rounds = []
    for _ in range(ROUNDS):
        began = thread_time_ns()
        for _ in range(CALLS):
            call()
        rounds.append((thread_time_ns() - began) / CALLS)
    return median(rounds) / 1e9
