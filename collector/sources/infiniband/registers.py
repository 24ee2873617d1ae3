"""Registers that stop at their maximum: one that stands there is unknown, and no count."""

from collections.abc import Mapping

from lockstep.collector.reading import Rejected
from lockstep.collector.sources.infiniband.tree import Place, Trying

WIDTHS: Mapping[str, int] = {
    "symbol_error": 16, "link_error_recovery": 8, "link_downed": 8, "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16, "port_rcv_switch_relay_errors": 16,
    "port_xmit_discards": 16, "port_xmit_constraint_errors": 8, "port_rcv_constraint_errors": 8,
    "local_link_integrity_errors": 4, "excessive_buffer_overrun_errors": 4, "VL15_dropped": 16,
    "port_xmit_data": 32, "port_rcv_data": 32, "port_xmit_packets": 32, "port_rcv_packets": 32,
    "port_xmit_wait": 32,
}  # fmt: skip
"""Bits of the registers under `counters/` (InfiniBand architecture 16.1.3.5, PortCounters; the
third number of PORT_PMA_ATTR in drivers/infiniband/core/sysfs.c). They stop at their maximum."""
WIDE = ((1 << 32) - 1, (1 << 64) - 1)
"""Where other registers stop, `hw_counters/` and those whose wide set is read: 32 or 64 bits."""


def is_saturated(file: str, count: int) -> bool:
    """Whether a register stands at its maximum: how much it has missed since then, nobody knows.

    A count beyond the maximum is of a driver that keeps more bits than the architecture's.

    Args:
        file: Of the register, below the port's folder, as `counters/link_downed`.
        count: What it reads.
    """
    group, _, name = file.partition("/")
    bits = WIDTHS.get(name, 0) if group == "counters" else 0
    return count in WIDE or count == (1 << bits) - 1 > 0


class Saturation:
    """Which registers stand, between readings: each is listed once, and again after a reset."""

    def __init__(self) -> None:
        self._standing: dict[Place, frozenset[str]] = {}

    def note(self, place: Place, standing: frozenset[str], trying: Trying) -> None:
        """These of a port stand at their maximum now."""
        new = standing - self._standing.get(place, frozenset())
        self._standing[place] = standing
        if new:
            words = f"RDMA device {place.device} port {place.port}"
            trying.rejected.append(
                Rejected(
                    "saturated",
                    f"{words}: {', '.join(sorted(new))} stand at their maximum and count no more;"
                    " `perfquery -R` sets a port's counters back",
                )
            )

    def keep(self, places: list[Place]) -> None:
        """Forget ports that are not there any more."""
        self._standing = {one: self._standing[one] for one in places if one in self._standing}
