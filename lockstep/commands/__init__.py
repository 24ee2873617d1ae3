"""Every command, in the order of `--help`; its function's name is the command's name.

A command module imports its heavy libraries inside its function: `lockstep --help` imports all
of these files.
"""

from collections.abc import Callable

from lockstep.commands import (
    analyze,
    api,
    bench,
    capture,
    cluster,
    collect,
    dashboard,
    demo,
    doctor,
    dump,
    fit,
    hang,
    ledger,
    nodes,
    report,
    rules,
    run,
    score,
    top,
    watch,
)

COMMANDS: tuple[Callable[..., int | None], ...] = (
    demo.demo,
    run.run,
    collect.collect,
    analyze.analyze,
    cluster.cluster,
    report.report,
    ledger.ledger,
    dashboard.dashboard,
    top.top,
    watch.watch,
    api.api,
    nodes.nodes,
    score.score,
    fit.fit,
    dump.dump,
    hang.hang,
    rules.rules,
    doctor.doctor,
    capture.capture,
)
GROUPS: dict[str, tuple[str, tuple[Callable[..., int | None], ...]]] = {
    "bench": (bench.HELP, bench.COMMANDS),
}
"""Commands of several words: the first -> what it is for, and the functions of the second."""
