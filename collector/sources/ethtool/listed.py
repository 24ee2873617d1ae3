"""All statistics of a device as its driver names them: what `ethtool -S` prints."""

import struct

from lockstep.collector.reading import SourceError
from lockstep.collector.sources.ethtool import (
    GSSET_INFO,
    GSTATS,
    GSTRINGS,
    MAX_STATISTICS,
    NAME_BYTES,
    SET_INFO,
    STATISTICS,
    STATS_HEAD,
    STRINGS_HEAD,
    Ask,
)


def statistics(ask: Ask, device: str) -> list[tuple[str, int]]:
    """Name and value of each statistic, in the driver's order.

    Raises:
        SourceError: The device is gone, its driver keeps none, or they change meanwhile.
    """
    answer = ask(device, SET_INFO.pack(GSSET_INFO, 0, 1 << STATISTICS, 0), SET_INFO.size)
    _, _, mask, count = SET_INFO.unpack(answer)
    if not mask & 1 << STATISTICS or not 0 < count <= MAX_STATISTICS:
        raise SourceError("unsupported", f"ethtool on {device}: its driver keeps no statistics")
    head = STRINGS_HEAD.pack(GSTRINGS, STATISTICS, count)
    names = ask(device, head, len(head) + count * NAME_BYTES)
    head = STATS_HEAD.pack(GSTATS, count)
    values = ask(device, head, len(head) + count * 8)
    told = STRINGS_HEAD.unpack_from(names)[2], STATS_HEAD.unpack_from(values)[1]
    if told != (count, count):
        raise SourceError("changing", f"ethtool on {device}: the statistics change meanwhile")
    numbers = struct.unpack_from(f"={count}Q", values, STATS_HEAD.size)
    starts = range(STRINGS_HEAD.size, STRINGS_HEAD.size + count * NAME_BYTES, NAME_BYTES)
    words = (names[at : at + NAME_BYTES].split(b"\0")[0] for at in starts)
    return list(zip((word.decode("ascii", "replace") for word in words), numbers, strict=True))
