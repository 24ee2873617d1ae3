"""The catalogue of XIDs (the NVIDIA driver's error numbers), with severity and advice, as data."""

from collections.abc import Mapping
from types import MappingProxyType

from collector.contract.xid.catalogue import (
    ACTIONS,
    ADVICE,
    ADVICE_OF,
    BUCKETS,
    LAST,
    SOURCE,
    TEXTS,
    UNUSED,
)
from collector.contract.xid.detail import Detail, detail
from collector.contract.xid.policy import DCGM, DEFAULT, GPUD, POLICIES
from collector.contract.xid.shape import Action, Bucket, Severity, Xid

__all__ = [
    "DEFAULT", "POLICIES", "XIDS", "Action", "Bucket", "Detail", "Severity", "Xid", "describe",
    "detail",
]  # fmt: skip


def describe(number: int) -> Xid:
    """The row of an XID; one that the catalogue lacks is for support, and its text says so."""
    known = XIDS.get(number)
    return known or _row(number, Bucket.CONTACT_SUPPORT, "not in the catalogue", "none")


def _row(number: int, bucket: Bucket, text: str, source: str) -> Xid:
    severity = POLICIES[DEFAULT](number, bucket)
    action = ACTIONS[bucket]
    nvlink = bucket in (Bucket.WORKFLOW_NVLINK, Bucket.WORKFLOW_NVLINK5)
    return Xid(
        number=number,
        text=text,
        bucket=bucket,
        action=action,
        fatal=True if nvlink else None if action is None else action is not Action.NONE,
        severity=severity or Severity.WARNING,
        advice=ADVICE_OF.get(number, ADVICE[bucket]),
        dcgm=DCGM.get(number, ""),
        gpud=GPUD.get(number, ""),
        source=source,
    )


def _rows() -> dict[int, Xid]:
    buckets = {number: bucket for bucket, numbers in BUCKETS.items() for number in numbers}
    return {
        number: _row(
            number, buckets.get(number, Bucket.CONTACT_SUPPORT), TEXTS.get(number, UNUSED), SOURCE
        )
        for number in range(1, LAST + 1)
    }


XIDS: Mapping[int, Xid] = MappingProxyType(_rows())
"""Every XID of the catalogue by its number."""
