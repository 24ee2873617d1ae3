"""How bad an XID is, by whom you ask: NVIDIA's catalogue (the default), DCGM or gpud.

Sources: the catalogue's bucket (rows.py); DCGM 4.6's health watches; gpud's event types. They
disagree, so the choice is data with a name.
"""

from collections.abc import Callable, Mapping

from lockstep.collector.contract.xid.shape import Bucket, Severity

DEFAULT = "nvidia"

DCGM: Mapping[int, str] = {
    **dict.fromkeys((48, 64, 74, 79, 95, 119, 120, 140), "FAIL"),
    **dict.fromkeys(
        (31, 32, 38, 39, 42, 43, 54, 56, 57, 58, 60, 61, 62, 63, 67, 73, 78, 93, 94, 121, 137),
        "WARN",
    ),
}
"""DCGM's verdict (memory, PCIe, thermal, power, NVLink and InfoROM watches; 93 on Volta only)."""

_GPUD_FATAL = (
    9, 12, 16, 18, 19, *range(26, 31), *range(32, 37), 38, 42, 44, 46, 47, 48, *range(59, 65), 68,
    69, 74, 78, 79, 81, 95, 110, 119, 120, 121, 123, 140, 143,
)  # fmt: skip
GPUD: Mapping[int, str] = {
    **dict.fromkeys((*range(1, 133), *range(134, 174)), "Warning"),
    **dict.fromkeys(_GPUD_FATAL, "Fatal"),
    **dict.fromkeys((65, 94), "Critical"),
    **dict.fromkeys((152, 153, 157, 161, 162, 164, 165), "Info"),
}
"""gpud's event type; NVLink's 144 to 150 it rates by what the message says."""

_DCGM_WORDS = {"FAIL": Severity.FATAL, "WARN": Severity.WARNING}
_GPUD_WORDS = {
    "Fatal": Severity.FATAL,
    "Critical": Severity.WARNING,  # "degraded": work goes on
    "Warning": Severity.WARNING,
    "Info": Severity.INFO,
}
_BY_BUCKET = {
    Bucket.IGNORE: Severity.INFO,
    Bucket.RESET_GPU: Severity.FATAL,
    Bucket.RESTART_BM: Severity.FATAL,
    Bucket.RESTART_VM: Severity.FATAL,
    Bucket.WORKFLOW_XID_48: Severity.FATAL,
    Bucket.WORKFLOW_NVLINK: Severity.FATAL,
    Bucket.WORKFLOW_NVLINK5: Severity.FATAL,
}
UNRATED_FATAL = frozenset({167, 169, 173, 175})
"""XIDs without an action of NVIDIA's that the driver itself calls fatal (167, 173), or that are
another form of one that needs a reset: 169 of 62, 175 of 119."""


def rated(number: int, bucket: Bucket) -> Severity:
    """The default policy: what needs a reset or a restart is fatal."""
    if number in UNRATED_FATAL:
        return Severity.FATAL
    return _BY_BUCKET.get(bucket, Severity.WARNING)


POLICIES: Mapping[str, Callable[[int, Bucket], Severity | None]] = {
    DEFAULT: rated,
    "dcgm": lambda number, _bucket: _DCGM_WORDS.get(DCGM.get(number, "")),
    "gpud": lambda number, _bucket: _GPUD_WORDS.get(GPUD.get(number, "")),
}
"""Severity of (number, bucket) by name of the policy; None = it has no opinion."""
