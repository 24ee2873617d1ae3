"""Where a rank that writes a ring looks for requests, and leaves its flight-recorder dump.

Both lie beside the ring. A dump is what `torch._C._distributed_c10d._dump_fr_trace_json` gives.
"""

import re

from lockstep.collector.contract.ring import PATTERN, RingName

PREFIX = "flight-recorder-"
EVIDENCE_FILE = "evidence.json"
"""Beside dumps that are sent: when each was written, and what else is known of the ranks."""

# GET /dumps?run=RUN asks the ranks of the run on this node for their dumps, and answers
# {"schema_version": 1, "run": RUN,
#  "ranks": [{"rank", "node", "world", "attempt",
#             "phase": of the step under way, a word of PHASES, or null,
#             "progress_age": seconds since it began or ended anything, or null,
#             "written": unix seconds, or null without a dump, "why": why there is none, or "",
#             "dump": base64 of zlib of the file as the rank wrote it, or null}],
#  "facts": rows of `facts` as in EVIDENCE_FILE, of what this node's sensors last told}.
# No rank of the run on this node: 404. It takes up to DUMPS_SECONDS.
DUMPS_SCHEMA_VERSION = 1
DUMPS_SECONDS = 5.0
"""Ranks have so long to answer: torch looks at its pipe once a second, and writes for another."""
DUMPS_MAX_BYTES = 32 << 20
"""Of all packed dumps in one answer; 2,000 collectives with stack traces have 0.2 MB packed."""
DUMPS_AGAIN_SECONDS = 10.0
"""Ranks are not asked again before; an earlier request gets what they wrote since."""

_DUMP = re.compile(rf"{PREFIX}({PATTERN})-(\d{{1,9}})", re.ASCII)


def request_name(run: str) -> str:
    """Made by whoever wants dumps: all ranks of the run beside it write one each time.

    Raises:
        ValueError: The run is no RingName.
    """
    return f"dump-{RingName(run)}"


def dump_name(run: str, rank: int) -> str:
    """Replaced as a whole with every dump.

    Raises:
        ValueError: The run is no RingName.
    """
    return f"{PREFIX}{RingName(run)}-{rank}"


def of_dump(name: str) -> tuple[str, int] | None:
    """(run, rank) of a name that `dump_name` gives, else None."""
    match = _DUMP.fullmatch(name)
    return (match[1], int(match[2])) if match else None
