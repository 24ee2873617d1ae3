"""What a started program needs of this machine, and which faults cannot be injected here."""

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import lockstep
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import FaultKind

OURS = "LOCKSTEP_DASHBOARD_"
"""Settings of the dashboard are none of the run's business, and may hold addresses."""


def environment() -> dict[str, str]:
    """Ours, with the place of our packages: they are found however the dashboard was started."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    here = str(Path(lockstep.__file__).resolve().parent.parent)
    return ours | {
        "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH", "")))),
        "NO_COLOR": "1",
    }


def missing() -> str:
    """Empty if runs can be made in this installation, else what it lacks, as a sentence."""
    if find_spec("torch") is None:
        return (
            "Runs need torch, and this installation has none: install it with the extra workloads."
        )
    return ""


def unwritable(folder: Path) -> str:
    """Empty if archives can be written to a folder, else why not, as a sentence."""
    if not folder.is_dir():
        return f"Runs go to {folder}, and there is no such folder: make it, then load this page."
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"Runs go to {folder}, and this process may not write there: change its permissions."
    return ""


# Which faults this machine cannot inject, asked for in a process of its own.
#
# To find out, network namespaces are entered and left: no thread of a server may do that.

_ASK = (
    "import json\nfrom lockstep.workloads.faults.capabilities import refused\n"
    "print(json.dumps(refused(pace=True)))"
)
PATIENCE_SECONDS = 20.0
NO_ANSWER = "this machine did not say whether it can; ask `lockstep doctor`"


def refused() -> dict[FaultKind, str]:
    """Kind -> why not; kinds that can be injected are absent."""
    try:
        return _asked()
    except (OSError, subprocess.SubprocessError, ValueError, AttributeError):
        return dict.fromkeys(FaultKind, NO_ANSWER)


@cache
def _asked() -> dict[FaultKind, str]:
    """Once a process: the machine stays what it is."""
    answer = subprocess.run(
        [sys.executable, "-c", _ASK], env=environment(), stdin=subprocess.DEVNULL,
        capture_output=True, timeout=PATIENCE_SECONDS, check=True,
    ).stdout  # fmt: skip
    return {FaultKind(kind): str(reason) for kind, reason in bounded_json.loads(answer).items()}
