"""Where a rank that never told stands in the layout, by what the others told."""

from collections.abc import Callable, Iterable

Place = tuple[int, int, int]


def place_of(world: int, known: Iterable[tuple[int, int, int, int]]) -> Callable[[int], Place]:
    """Rank -> (dp, pp, tp) by the rule of docs/method/case.md, `rank = (pp · DP + dp) · TP + tp`.

    With no sizes that fit the ranks that told, all others count as data-parallel.

    Args:
        world: Number of ranks.
        known: (rank, dp, pp, tp) of those that told.
    """
    told = list(known)
    widths = [width for width in range(1, world + 1) if world % width == 0]
    for tp in widths:
        for dp in widths:
            rule = _rule(dp, tp)
            if world % (tp * dp) == 0 and all(rule(one[0]) == one[1:] for one in told):
                return rule
    return lambda rank: (rank, 0, 0)


def _rule(dp: int, tp: int) -> Callable[[int], Place]:
    return lambda rank: (rank // tp % dp, rank // (tp * dp), rank % tp)
