"""Lets gloo's threads put down what Python gave them before the interpreter ends.

A Python callback on a collective's future is called, and let go of, by the thread that ran the
collective, and each takes the interpreter's lock. A thread that asks for that lock while the
interpreter ends is ended by force, and C++ then aborts the whole process: "terminate called without
an active exception" (pytorch/pytorch#190489, #179291). Gloo's threads outlive
`destroy_process_group`, so a rank whose work was done could end as one that crashed.
"""

import atexit
from functools import cache
from pathlib import Path
from time import monotonic, sleep

NAME = "pt_gloo_runloop"
"""Of the threads that run gloo's collectives (torch/csrc/distributed/c10d/ProcessGroupGloo.cpp)."""
TASKS = Path("/proc/self/task")
LONGEST_SECONDS = 1.0
"""One that waits for another rank sleeps as well, so only a busy machine makes this last."""
PAUSE_SECONDS = 0.001
LOOKS = 3
"""Asleep in so many looks on end: who only waited for the interpreter's lock had it meanwhile."""


@cache
def rest_at_exit() -> None:
    """Wait for them when this process ends; asked for by whoever gives them callbacks."""
    atexit.register(wait_for_rest)


def wait_for_rest(tasks: Path = TASKS, longest: float = LONGEST_SECONDS) -> bool:
    """Wait until all of them sleep.

    Args:
        tasks: A folder as proc(5) has it for the threads of a process.
        longest: Seconds after which it is given up.

    Returns:
        Whether they do.
    """
    until, looks = monotonic() + longest, 0
    while looks < LOOKS:
        if monotonic() > until:
            return False
        sleep(PAUSE_SECONDS)  # without the interpreter's lock, which they may be waiting for
        looks = looks + 1 if _all_sleep(tasks) else 0
    return True


def _all_sleep(tasks: Path) -> bool:
    """Whether none of them runs, or is ready to; true where the kernel does not tell."""
    for stat in tasks.glob("*/stat"):
        try:
            _, _, rest = stat.read_text(errors="replace").partition(f" ({NAME}) ")
        except OSError:  # the thread has ended
            continue
        if rest and rest[0] != "S":
            return False
    return True
