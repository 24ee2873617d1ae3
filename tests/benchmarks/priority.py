"""Priority over other work, for measuring on a machine that others use as well.

Linux shares the processor between sessions first (autogroups), so a nice value within one changes
little; and a browser starts sessions of its own.
SOURCE: sched(7), "The autogroup feature".
"""

import os
from pathlib import Path

VARIABLE = "BENCH_PRIORITY"
"""Environment variable: nice value of the sessions, -20 to 19; empty = as it is."""
PROC = Path("/proc")


def given() -> None:
    """Gives this process, and all that descend from it, the priority that the environment says.

    Raises:
        PermissionError: Only root may ask for more than others have.
    """
    value = os.environ.get(VARIABLE, "")
    if not value:
        return
    for process in (os.getpid(), *descendants(os.getpid())):
        autogroup = PROC / str(process) / "autogroup"
        if autogroup.exists():  # it may have ended, and not every kernel has them
            autogroup.write_text(value)


def descendants(process: int) -> list[int]:
    """The ids of every process that a process started, and so on."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                # The name, in parentheses, may hold anything.
                told = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            children.setdefault(int(told[1]), []).append(int(entry.name))
    found, waiting = [], [process]
    while waiting:
        of_it = children.get(waiting.pop(), [])
        found += of_it
        waiting += of_it
    return found
