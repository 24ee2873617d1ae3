"""The catalogue of XIDs (the NVIDIA driver's error numbers), with severity and advice, as data.

Collector, alert rules, watch, runbooks, dashboards and documentation read it: what pages is PAGED,
what a second one within a day tells is REPEATED, and `judged` is what one line says.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from lockstep.collector.contract.xid_catalogue.detail import Detail, detail
from lockstep.collector.contract.xid_catalogue.policy import (
    ACTIONS,
    ADVICE,
    ADVICE_OF,
    DCGM,
    DEFAULT,
    GPUD,
    POLICIES,
)
from lockstep.collector.contract.xid_catalogue.rows import ROWS, Row
from lockstep.collector.contract.xid_catalogue.shape import (
    Action,
    Bucket,
    Fault,
    Judgement,
    Part,
    Repeats,
    Severity,
    Xid,
)

__all__ = [
    "BY_LINE", "DEFAULT", "NOT_OF_HARDWARE", "PAGED", "POLICIES", "RECOVERY", "REPEATED", "XIDS",
    "Action", "Bucket", "Detail", "Fault", "Judgement", "Part", "Repeats", "Severity", "Xid",
    "describe", "detail", "judged", "listed", "selector",
]  # fmt: skip


def describe(number: int) -> Xid:
    """The row of an XID; one that the catalogue lacks is for support, and its text says so."""
    return XIDS.get(number) or _described(Row(number, text="not in the catalogue"), known=False)


def judged(number: int, text: str) -> Judgement:
    """What one message says of itself; what it does not say is as the catalogue has it.

    Args:
        number: The XID.
        text: The driver's message, or empty where only the number was told.
    """
    row, said = describe(number), detail(number, text)
    if said.follows:
        return Judgement(
            Severity.INFO, Fault.CONSEQUENCE, Action.NONE, said.caused_by, by_line=True
        )
    if said.fatal is not None:
        severity = Severity.FATAL if said.fatal else Severity.WARNING
        return Judgement(severity, row.fault, said.action or row.action, by_line=True)
    if number == RECOVERY and said.action is not None:
        severity = Severity.INFO if said.action is Action.NONE else Severity.FATAL
        return Judgement(severity, row.fault, said.action, by_line=True)
    return Judgement(row.severity, row.fault, said.action or row.action)


def listed(numbers: Iterable[int]) -> str:
    """Numbers in a sentence, neighbours as a range: `46, 48, 144 to 151`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    ranges = [
        f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans
    ]
    return ", ".join(ranges[:-1]) + " and " + ranges[-1] if len(ranges) > 1 else ranges[0]


def selector(numbers: Iterable[int], *, fatal: bool = False) -> str:
    """Matchers of PromQL for series of these XIDs.

    Args:
        numbers: XIDs.
        fatal: Whether those are left out of which the label `severity` says that they are not;
            collectors before that label told none, and are not left out.
    """
    which = f'xid=~"{"|".join(map(str, numbers))}"'
    not_fatal = "|".join(severity for severity in Severity if severity is not Severity.FATAL)
    return f'{which},severity!~"{not_fatal}"' if fatal else which


def _described(row: Row, *, known: bool = True) -> Xid:
    action = ACTIONS[row.bucket]
    nvlink = row.bucket in (Bucket.WORKFLOW_NVLINK, Bucket.WORKFLOW_NVLINK5)
    severity = POLICIES[DEFAULT](row.number, row.bucket)
    return Xid(
        number=row.number,
        name=row.name,
        text=row.text,
        bucket=row.bucket,
        action=action,
        fatal=True if nvlink else None if action is None else action is not Action.NONE,
        severity=severity or Severity.WARNING,
        fault=row.fault,
        part=row.part,
        repeats=row.repeats,
        advice=ADVICE_OF.get(row.number, ADVICE[row.bucket]),
        dcgm=DCGM.get(row.number, ""),
        gpud=GPUD.get(row.number, ""),
        source=SOURCE if known else "none",
    )


NOT_OF_HARDWARE = tuple(
    row.number
    for row in ROWS
    if row.fault is Fault.APPLICATION or row.bucket is Bucket.WORKFLOW_XID_45
)
"""XIDs of the application, and the one that cleans up behind another XID or the application."""
RECOVERY = 154
"""The XID whose severity is that of the action that it names."""
SOURCE = "NVIDIA Xid catalogue"
XIDS: Mapping[int, Xid] = MappingProxyType({row.number: _described(row) for row in ROWS})
"""Every XID of the catalogue by its number."""
BY_LINE = frozenset(
    number
    for number, row in XIDS.items()
    if row.bucket
    in (Bucket.WORKFLOW_NVLINK, Bucket.WORKFLOW_NVLINK5, Bucket.XID_154, Bucket.WORKFLOW_XID_45)
)
"""XIDs whose message says how bad they are, so that the number alone does not."""
PAGED = tuple(
    number
    for number, row in XIDS.items()
    if row.severity is Severity.FATAL or row.bucket is Bucket.XID_154
)
"""XIDs that page, each event of severity fatal: the GPU has to leave work."""
REPEATED: Mapping[Repeats, tuple[int, ...]] = MappingProxyType({
    kind: tuple(number for number, row in XIDS.items() if row.repeats is kind)
    for kind in (Repeats.CONTAINED, Repeats.APPLICATION)
})  # fmt: skip
"""XIDs of which the second within a day on one GPU is reported, by its meaning."""
