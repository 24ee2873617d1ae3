"""Which part of a GPU an XID is about, where that part is a cause of its own.

Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog", whose texts `collector.contract.xid`
holds: memory errors and remapping; NVLink and its links' units; PCIe. XIDs that the application
caused, or that tell only that it ended, are named so there and in NVIDIA's "XID Errors".
"""

from collections.abc import Mapping

from collector.contract.words import Cause

MEMORY = (48, 63, 64, 92, 94, 95, 140, 160, 161, 168, 171, 172)
NVLINK = (74, 108, 137, *range(144, 151), 155)
PCIE = (167,)
APPLICATION = frozenset({13, 31, 43, 45})
"""docs/method/causes.md: 13, 31 and 43 are the application's; 45 cleans up after one that ended."""

PART: Mapping[int, Cause] = {
    **dict.fromkeys(MEMORY, Cause.ECC),
    **dict.fromkeys(NVLINK, Cause.NVLINK),
    **dict.fromkeys(PCIE, Cause.PCIE),
}
"""XID -> the cause that explains it better than the number alone."""
