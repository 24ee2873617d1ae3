"""The pages of the kernel log: XIDs by the catalogue, and lines without an XID."""

import re
from collections import Counter
from collections.abc import Iterable
from string import ascii_uppercase

from lockstep.collector.contract.kernel_log import FATAL_SECONDS, KINDS, TOGETHER, TOLD
from lockstep.collector.contract.xid import BY_LINE, PAGED, REPEATED, XIDS, listed
from lockstep.collector.contract.xid_catalogue.rows import UNUSED
from lockstep.collector.contract.xid_catalogue.shape import Severity, Xid
from tests.docs.tables import code, table

HEAD = ("XID", "what", "severity", "whose fault", "alert", "what to do")
USUAL = 5
"""Advice of so many XIDs has a letter on the page."""
NUMBER = re.compile(r"\b[0-9]+\b")


def xid_table(numbers: Iterable[int]) -> str:
    """Rows of the catalogue, as a page or a runbook shows them."""
    return table(HEAD, [_row(XIDS[number]) for number in numbers])


def xids(made: str) -> list[str]:
    """The parts of the page of XIDs."""
    known = [row for row in XIDS.values() if row.text != UNUSED]
    unused = [number for number, row in XIDS.items() if row.text == UNUSED]
    usual = [each for each, count in Counter(row.advice for row in known).most_common()
             if count >= USUAL]  # fmt: skip
    letters = dict(zip(usual, ascii_uppercase, strict=False))
    return [
        "# XIDs", made,
        ("The NVIDIA driver's error numbers, and what to do. The collector, alerts, runbooks,"
         " dashboards and the analysis use this one list. Its sources are the driver's R595 header,"
         " whose list ends at 176, and NVIDIA's Xid catalogue."),
        ("**Severity.** The label `severity` of `lockstep_gpu_xid_errors_total` and"
         " `lockstep_gpu_xid_last_timestamp_seconds` is what the driver's line says: `Fatal` or"
         " `Nonfatal` of NVLink, the action of 154 (`None` is info), `caused by previous Xid` of 45"
         " (info: follow that one). Where the line says nothing, or only NVML reported the number,"
         " the table's severity holds. If NVML reports first an XID whose line says how bad it is"
         f" ({listed(BY_LINE)}), the collector waits up to 2 s for the line. Queries over these"
         " should sum over `severity`."),
        ("**Alert.** `pages`: [LockstepGpuXidFatal](../../deploy/runbooks/LockstepGpuXidFatal.md),"
         " for events of severity fatal. `second in a day`: a single one raises no alert."),
        "**What to do**, by letter:",
        "\n".join(f"- **{letter}** {each}" for each, letter in letters.items()),
        table(HEAD, _grouped(_short(row, letters) for row in known)),
        (f"Unused since A100, and reported by older GPUs: {listed(unused)}. NVIDIA sends them to"
         " support. They, and numbers that are not in the list, are warnings."),
    ]  # fmt: skip


def _grouped(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """XIDs that differ in a number of their text alone, as of engines, share a row."""
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for number, what, *cells in rows:
        key = (NUMBER.sub("N", what), *cells)
        groups.setdefault(key, []).append((number, what))
    return [
        (listed(int(number) for number, _ in alike), key[0] if len(alike) > 1 else alike[0][1],
         *key[1:])
        for key, alike in groups.items()
    ]  # fmt: skip


def _short(row: Xid, letters: dict[str, str]) -> tuple[str, ...]:
    number, _, *cells, advice = _row(row)
    return number, row.text, *cells, letters.get(advice, advice)


def kernel_events(made: str) -> list[str]:
    """The parts of the page of lines without an XID."""
    kinds = [
        (
            code(kind.kind),
            kind.text,
            _each(str(severity) for name, severity in TOLD if name == kind.kind),
            kind.advice,
        )
        for kind in KINDS.values()
    ]
    return [
        "# Kernel events", made,
        ("Lines of the kernel log that end or slow down runs without an XID, by the forms in the"
        " sources of Linux and of NVIDIA's modules (`collector/contract/kernel_log.py`). Each line"
        " counts in `lockstep_kernel_events_total{kind, severity}`;"
        " `lockstep_kernel_event_last_timestamp_seconds` says when and which device. Fatal ones"
        " page ([LockstepKernelEventFatal](../../deploy/runbooks/LockstepKernelEventFatal.md)),"
        " warnings are told"
        " ([LockstepKernelEventWarning](../../deploy/runbooks/LockstepKernelEventWarning.md)), info"
        " is counted."),
        (f"A soft lockup is fatal once it has lasted for {FATAL_SECONDS:g} s. Two that come"
         " together are worse than each alone, and the later one counts as such: "
         + "; ".join(
             f"{' and '.join(map(code, sorted(one.kinds)))} within {one.seconds:g} s are"
             f" {one.severity}" for one in TOGETHER) + "."),
        table(("kind", "what", "severity", "what to do"), kinds),
        ("Warnings of these drivers that no form reads, and XIDs that cannot be read, are counted"
        " in `lockstep_kernel_lines_unread_total{driver}`; `lockstep doctor` shows the last one."
        " Please send it."),
    ]  # fmt: skip


def _each(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _row(row: Xid) -> tuple[str, ...]:
    if row.number in PAGED:
        told = "pages" if row.severity is Severity.FATAL else "pages, by the line"
    else:
        told = "second in a day" if any(row.number in each for each in REPEATED.values()) else ""
    what = f"{row.text} ({code(row.name)})" if row.name else row.text
    return str(row.number), what, str(row.severity), str(row.fault), told, row.advice
