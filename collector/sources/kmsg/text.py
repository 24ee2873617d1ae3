"""A kernel log as text, as dmesg, journalctl and /dev/kmsg itself write it: its lines, bare."""

import re
from collections.abc import Iterator

from collector.sources.kmsg.lines import spelled_out

LONGEST = 8192
"""Characters of a line that are looked at."""
_RECORD = re.compile(r"[0-9]{1,5},[0-9]{1,19},[0-9]{1,16},[^;\n]{0,128};(.*)", re.ASCII)
# dmesg: "<4>[  201.668783] ", "[Sun Feb 23 16:24:18 2025] ", "kern  :err   : [ 1.0] "; journalctl:
# "Nov 03 10:00:00 host kernel: ".
_FRONT = re.compile(
    r"(?:<[0-9]{1,3}>)?(?:[a-z0-9]{1,8} *:[a-z]{1,8} *: *)?"
    r"(?:(?:\S{0,62}[^\s:](?: +\S{0,62}[^\s:]){0,4} +)?kernel: *)?"
    r"(?:\[[^\[\]\n]{0,48}[0-9][^\[\]\n]{0,16}\] *)?",
    re.ASCII,
)
_BEGUN = re.compile(r"NVRM: The NVIDIA GPU \S{5,20}$", re.ASCII)
_CONTINUED = re.compile(r"NVRM: (?:\(PCI ID|installed|fallen off)")
CONTINUED = 3
"""Lines that one record is at most."""


def messages(text: str) -> Iterator[str]:
    """The text of each record.

    A log that does not end with a line end was cut there: its last line is left out, for what it
    says may be half a number. Records of several lines are put together again.
    """
    *lines, _ = text.split("\n")
    begun: list[str] = []
    for line in (_bare(one) for one in lines):
        if begun and _CONTINUED.match(line) and len(begun) < CONTINUED:
            begun.append(line)
            continue
        if begun:
            yield " ".join(begun)
            begun = []
        if _BEGUN.match(line):
            begun = [line]
        elif line:
            yield line
    if begun:
        yield " ".join(begun)


def _bare(line: str) -> str:
    line = line[:LONGEST].rstrip("\r")
    record = _RECORD.fullmatch(line)
    if record is not None:
        return spelled_out(record[1].encode())
    found = _FRONT.match(line)
    return line[found.end() if found else 0 :].strip()
