"""Where rank 0 of a Slurm job is, from the names that Slurm gives."""

import re

FIRST_PORT, PORTS = 15_000, 10_000
_FIRST = re.compile(r"^(?P<head>[^,\[\]\s]+)?(?:\[(?P<low>\d+)[^\]]*\](?P<tail>[^,\[\]\s]*))?")


def first_host(nodes: str) -> str:
    """The first host of a node list such as `rack1-n[03-07,12],login`.

    Source of the syntax: https://slurm.schedmd.com/scontrol.html, `show hostnames`. One bracket a
    name, which is what Slurm writes on all but multi-dimensional machines.

    Raises:
        ValueError: It is no node list.
    """
    found = _FIRST.match(nodes)
    if found is None or not found[0] or nodes[found.end() : found.end() + 1] not in ("", ","):
        raise ValueError(f"Slurm's node list {nodes!r} does not begin with a host name")
    return f"{found['head'] or ''}{found['low'] or ''}{found['tail'] or ''}"


def port_of_job(job: int) -> int:
    """A port that every rank of a job computes alike: 15000 and the job's last four digits.

    Source: Lightning, src/lightning/fabric/plugins/environments/slurm.py, `main_port`.
    """
    return FIRST_PORT + job % PORTS
