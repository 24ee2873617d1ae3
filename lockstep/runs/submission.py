"""When a scheduler was asked for this run, and for whom: what its environment says."""

import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime

SUBMITTED = "LOCKSTEP_SUBMITTED"
"""Unix seconds or RFC 3339, of whoever asked for the run: a wrapper of sbatch, or
`{{workflow.creationTimestamp.RFC3339}}` of an Argo template."""
SLURM_JOB, SLURM_ACCOUNT = "SLURM_JOB_ID", "SLURM_JOB_ACCOUNT"
_SUBMIT_TIME = re.compile(r"\bSubmitTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\b", re.ASCII)
"""Of `scontrol show job`; local time of the cluster (slurm.schedmd.com/scontrol.html)."""
ASK_SECONDS = 5.0


def team(given: str | None, environment: Mapping[str, str]) -> str:
    """Whose the run is: as given, else the account of its Slurm job; empty = nobody says."""
    return (given or environment.get(SLURM_ACCOUNT, "")).strip()


def submitted(environment: Mapping[str, str]) -> datetime | None:
    """When it was asked for; None = nobody says, as for a run that nobody queued."""
    told = _moment(environment.get(SUBMITTED, ""))
    return told if told is not None else _by_slurm(environment.get(SLURM_JOB, ""))


def _moment(text: str) -> datetime | None:
    try:
        if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text, re.ASCII):
            return datetime.fromtimestamp(float(text), UTC)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else None


def _by_slurm(job: str) -> datetime | None:
    """What Slurm's controller says of the job that this process is in."""
    if not re.fullmatch(r"\d{1,12}", job, re.ASCII):
        return None
    try:
        answer = subprocess.run(
            ["scontrol", "show", "job", "-o", job],  # noqa: S607 - wherever the site has it
            capture_output=True, timeout=ASK_SECONDS,
            text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    found = _SUBMIT_TIME.search(answer)
    return None if found is None else datetime.fromisoformat(found[1]).astimezone(UTC)
