"""Which faults this machine cannot inject, asked for in a process of its own.

To find out, network namespaces are entered and left: no thread of a server may do that.
"""

import subprocess
import sys
from functools import cache

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import FaultKind
from lockstep.dashboard.starting.world import environment

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
