"""The command line that starts the ranks, in the words of each mpirun."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from workloads.launchers.mpirun.program import Family, Program

PASSED = ("LD_LIBRARY_PATH", "LOCKSTEP_DIR", "MASTER_ADDR", "MASTER_PORT", "PATH", "PYTHONPATH")
PASSED_PREFIXES = ("GLOO_", "MPI4PY_", "NCCL_", "OMP_", "TORCH_")
"""Variables that ranks on other hosts get; mpirun passes only its own by itself."""


def environment(program: Program, variables: Mapping[str, str]) -> dict[str, str]:
    """What mpirun is started with: our own variables, and its own library before any other."""
    known = dict(variables)
    if program.libraries is not None:
        others = known.get("LD_LIBRARY_PATH")
        known["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(program.libraries), others)))
    return known


def command(
    program: Program,
    ranks: int,
    variables: Mapping[str, str],
    rank: Sequence[str],
    *,
    hosts: Path | None = None,
    root: bool,
) -> list[str]:
    """The words of one mpirun.

    Args:
        variables: What `environment` gave.
        rank: The command of a rank.
        hosts: A file that `machines` wrote; None = this host alone.
        root: We are root, which Open MPI takes only when told so.
    """
    passed = sorted(
        name for name in variables if name in PASSED or name.startswith(PASSED_PREFIXES)
    )
    if program.family is Family.MPICH:
        where = [] if hosts is None else ["-f", str(hosts)]
        told = [word for name in passed for word in ("-genv", name, variables[name])]
        return [str(program.path), "-n", str(ranks), *where, *told, *rank]
    return [
        str(program.path),
        *(["--allow-run-as-root"] if root else []),
        # More ranks than cores is the rule on a workstation, and a core a rank the exception.
        *("--oversubscribe", "--bind-to", "none", "-n", str(ranks)),
        *([] if hosts is None else ["--hostfile", str(hosts)]),
        *(word for name in passed for word in ("-x", name)),
        *rank,
    ]


def machines(program: Program, hosts: Sequence[str], ranks_per_node: int) -> str:
    """A host file that puts so many ranks in a row on every host."""
    slots = ":{}" if program.family is Family.MPICH else " slots={}"
    return "".join(f"{host}{slots.format(ranks_per_node)}\n" for host in hosts)
