"""`lockstep bench`: a matrix of runs from one file, their results, and what they are held against.

Each function is a command; a name that Python has itself ends in an underscore.
"""

from collections.abc import Callable
from typing import Any

from lockstep.commands.bench.here import measure, run, stop, workflow
from lockstep.commands.bench.results import compare, export, list_, lock, plot, tf_cnn

HELP = "A matrix of runs from one file: results as a table, and baselines for later runs."
COMMANDS: tuple[Callable[..., Any], ...] = (
    run, list_, compare, workflow, measure, lock, export, plot, tf_cnn, stop,
)  # fmt: skip
