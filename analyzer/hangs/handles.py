"""Which group a rank's own numbers for its groups mean: a dump counts by number what it names.

torch keeps counters by a number that each process gives its groups as it makes them, and names and
members by the group's name, which new_group counts up on all ranks alike
(torch/distributed/distributed_c10d.py, _process_group_name). Operations in the ring tell both; a
rank whose ring is empty, as that of one that waits for nothing, tells them apart only by order:
both count up as groups are made.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

WORLD = "0"
"""torch's name of the group of all ranks."""


def named(
    handles: Collection[int], names: Iterable[str], known: Mapping[int, str]
) -> dict[int, str]:  # fmt: skip
    """Names by handle, as far as they are certain.

    Args:
        known: Those that the ring tells.

    Between two that are known, as many handles as names are the same ones in the same order. Where
    the counts differ nobody can tell, but for one of each.
    """
    found = dict(known)
    names = set(names)
    if not names and 0 in handles and WORLD not in known.values():
        found.setdefault(0, WORLD)  # the first that a process makes
    rest = sorted(set(handles) - found.keys())
    free = names - set(known.values())
    ordered = sorted((name for name in free if name.isdecimal()), key=int)
    anchors = sorted((handle, int(name)) for handle, name in known.items() if name.isdecimal())
    if any(a[1] >= b[1] for a, b in pairwise(anchors)):
        return found  # they were not made in the order of their names
    if len(ordered) != len(free):
        if len(free) == len(rest) == 1:
            found[rest[0]] = free.pop()
        return found
    numbers = [int(name) for name in ordered]
    low_handle, low_name = 0, 0
    for handle, number in [*anchors, (1 << 63, 1 << 63)]:
        to_handle, to_name = bisect_left(rest, handle), bisect_left(numbers, number)
        if to_handle - low_handle == to_name - low_name:
            found.update(zip(rest[low_handle:to_handle], ordered[low_name:to_name], strict=True))
        low_handle, low_name = to_handle, to_name
    return found
