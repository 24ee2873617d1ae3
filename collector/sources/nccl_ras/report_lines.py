"""The lines of RAS' text report: src/ras/client_support.cc of nccl, v2.24.3-1 to v2.30.7-1.

Blanks count once: each pattern is of a line with single blanks and none at its ends.
"""

import re

BLANKS = re.compile(r"[ \t]+")
_STATUS = "INIT|RUNNING|FINALIZE|ABORT|NOCOMM|UNKNOWN"
_ERRORS = "OK|(?:MISMATCH|ERROR|INCOMPLETE)(?:,(?:MISMATCH|ERROR|INCOMPLETE)){0,2}"
_PROCESS = (
    r"(?:GPU \d{1,4}(?: \(NVML \d{1,4}\))? managed by process (?P<pid>\d{1,10})"
    r" on node (?P<host>\S{1,255})|\[process information not found\])"
)


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


VERSION = _line(r"NCCL version (\S{1,60}) compiled with CUDA \S{1,20}")
TIME = _line(r"Communicators\.\.\. \((\d{1,9})[.,](\d{1,9})s\)")
ROW = _line(
    r"(\d{1,9}) (\d{1,9}) \d{1,9}(?:-\d{1,9})? \d{1,9}(?:-\d{1,9})? (\d{1,9}(?:-\d{1,9})?)"
    rf" \d{{1,9}} ({_STATUS}) ({_ERRORS})"
)
NO_ROWS = "No communicator data collected!"
BLOCK = _line(r"#(\d{1,9})-(\d{1,9}) \(([0-9a-fA-F]{1,16})\) (MISMATCH|ERROR|INCOMPLETE)")
LOST_RANKS = _line(r"Missing communicator data from (\d{1,9}) ranks?")
NUMBERED = _line(r"The (missing|unknown) ranks?: (\d{1,9}(?:,\d{1,9})*)")
COUNTED = _line(r"Communicator ranks have different (\w{1,32}) operation counts")
DIFFERENT_STATUS = "Communicator ranks have different status"
FAILED = _line(r"(Initialization|Asynchronous) errors? on (\d{1,9}) ranks?")
SEVERAL = _line(
    r"(\d{1,9}) ranks (?:have launched up to operation (?P<reached>\d{1,18})"
    rf"|have (?P<none>not launched any operations)|have status (?P<status>{_STATUS})"
    r"|reported (?P<error>[\w ]{1,40}))"
)
ONE = _line(
    r"Rank (\d{1,9})(?: has launched up to operation (?P<reached>\d{1,18})"
    rf"| has (?P<none>not launched any operations)| has status (?P<status>{_STATUS})"
    rf"| reported (?P<error>[\w ]{{1,40}}))?(?: -- {_PROCESS})?"
)
LOST_PROCESSES = _line(r"Missing communicator data from \d{1,9} job process(?:es)?")
DEAD_PROCESSES = _line(r"\d{1,9} job process(?: is|es are) considered dead \(unreachable.*")
PROCESS_LINE = _line(
    r"Process (\d{1,10}) on node (\S{1,255}) managing GPUs? [\d,]{1,400}(?: \(NVML [\d,]{1,400}\))?"
)
TIMEOUT = _line(r"Encountered (\d{1,9}) communication timeouts? while gathering communicator data")
ORDER = (
    "broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce", "send_recv", "send",
    "recv",
)  # fmt: skip
"""Operations as NCCL numbers them (src/include/nccl_common.h, ncclFunc_t)."""
SECTIONS = frozenset(("Errors", "Warnings", "INCOMPLETE", "DEAD", "TIMEOUT"))
KNOWN = _line(
    r"=+|[\d -]+|Job summary|CUDA runtime version \S+, driver version \S+|The outlier nodes?:"
    r"|Node \S+ running process(?:es)? [\d,]+|\[could not find information on \d+ process(?:es)?\]"
    r"|(?:(?:Nodes|Processes|GPUs|Group|Comms|Ranks|Status|Errors|#|in group"
    r"|per (?:node|process|comm)|\(total\))(?: |$))+"
)
"""What else stands in a report: what it begins with, and the heads of its tables."""
