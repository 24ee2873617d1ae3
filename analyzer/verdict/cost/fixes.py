"""What mending a node gives back, bounded from windows (docs/method/what-if.md)."""

from collections.abc import Mapping, Sequence

from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.before_after import column_of
from lockstep.analyzer.stragglers.step_time import Cost, cost


def bounds_what_if(
    grid: Grid, slow: Sequence[Finding], bill: Cost | None, links: Sequence[Finding] = ()
) -> Mapping[str, object]:
    """`Verdict.what_if` by method `bounds`, or `none`.

    Args:
        grid: The run's windows.
        slow: Findings of slow ranks.
        bill: What they cost together; None = not known.
        links: Those that are accused beside them.
    """
    if not slow or bill is None:
        return {"method": "none"}
    by_node: dict[str, list[Finding]] = {}
    for finding in slow:
        column = column_of(grid, finding.rank)
        assert column is not None
        by_node.setdefault(grid.ranks[column].node, []).append(finding)
    fixes = []
    for node, mine in by_node.items():
        fix = cost(grid, mine, [*slow, *links])
        if fix is not None:
            low, high = fix.gain_interval
            fixes.append({"remove": node, "gain": fix.gain, "interval": [low, high],
                          "by": "bound", "over": "the steps while it was slow"})  # fmt: skip
    return {"method": "bounds", "S": bill.slowdown, "fixes": fixes}
