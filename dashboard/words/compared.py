"""What two runs beside each other say: the sentence, and the table of what was measured."""

from collections.abc import Sequence

import pandas as pd

from lockstep.analyzer.report.figures import cell
from lockstep.dashboard.comparison import CHANCE, TEST, Measure, Nodes
from lockstep.dashboard.shapes import Severity
from lockstep.dashboard.words.said import Said

NAMED_AT_MOST = 3
COLUMNS = ("what", "in words", "a", "b", "unit", "b over a", "at least", "at most", "effect", "p")
RATIOS = COLUMNS[5:8]
HOW = (
    "Medians of the steps after warm-up. Intervals are 95 %, by a bootstrap over groups of"
    f" neighbouring steps. Test: {TEST}. A difference is certain where chance would show one so"
    f" large in less than {cell(CHANCE, 'share')} of such tables, and where it is at least 1 %."
    " The effect is Cliff's delta: 0 = as often above as below, 1 = always above."
)


def answer(
    step: Measure | None,
    moved: Sequence[str],
    nodes: Nodes | None,
    works: tuple[str, str] = ("", ""),
) -> Said:
    """The first line: is b slower than a, by how much, where, and on which nodes.

    Args:
        step: Of the step time; None = one of them has none.
        moved: Phases that make up the change.
        nodes: None = not known.
        works: Workload and layout of a and of b; where they differ, a step is not the same work.
    """
    where = _nodes(nodes)
    if all(works) and works[0] != works[1]:
        where += f"; a step is not the same work: a is {works[0]}, b is {works[1]}"
    if step is None or step.ratio is None or step.interval is None:
        few = "Whether b is slower than a is unknown: too few steps after warm-up"
        return Said(f"{few}{where}.", Severity.UNKNOWN)
    low, high = step.interval
    between = f"95 % interval {_percent(low)} to {_percent(high)}"
    if not step.certain:
        return Said(
            "The steps of b and a take the same time within noise"
            f" ({_percent(step.ratio)}, {between}){where}.",
            Severity.OK,
        )
    slower = step.ratio > 1.0
    grew = _grew(moved, slower=slower)
    return Said(
        f"b is {_size(step.ratio)} {'slower' if slower else 'faster'} per step than a"
        f" ({between}){grew}{where}.",
        Severity.WARNING if slower else Severity.OK,
    )


def table(measures: Sequence[Measure]) -> pd.DataFrame:
    """One row a measure, unknown numbers NaN.

    Returns:
        Columns COLUMNS: `a` and `b` in base units; `b over a` and its interval as what b has more
        than a, a share of a.
    """
    rows = [
        (measure.name, verdict(measure), measure.a, measure.b, measure.unit, measure.ratio,
         *(measure.interval or (None, None)), measure.effect, measure.chance)
        for measure in measures
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame = frame.astype(dict.fromkeys(("a", "b", *COLUMNS[5:]), "float64"))
    frame[list(RATIOS)] -= 1.0
    return frame


def verdict(measure: Measure) -> str:
    """A measure in a few words."""
    if measure.ratio is None:
        same = measure.a == measure.b
        return "the same" if same else "too few values, or none above 0, to say"
    if not measure.certain:
        return "same within noise"
    direction = "higher" if measure.ratio > 1.0 else "lower"
    return f"{cell(abs(measure.ratio - 1.0), 'share')} {direction} in b"


def missing(a: Sequence[str], b: Sequence[str]) -> str:
    """Charts that only one run has, in words; empty = none."""
    parts = []
    for run, these, others in (("a", a, b), ("b", b, a)):
        only = [name for name in these if name not in others]
        parts += [f"only {run} has {', '.join(only)}"] if only else []
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _size(ratio: float) -> str:
    return cell(abs(ratio - 1.0), "share")


def _percent(ratio: float) -> str:
    return cell(ratio - 1.0, "percentage")


def _grew(moved: Sequence[str], *, slower: bool) -> str:
    if not moved:
        return ""
    return f": {' and '.join(moved[:NAMED_AT_MOST])} {'grew' if slower else 'shrank'}"


def _nodes(nodes: Nodes | None) -> str:
    if nodes is None or not (nodes.only_a or nodes.only_b):
        return ""
    parts = [f"without {_names(nodes.only_a)}"] if nodes.only_a else []
    parts += [f"with {_names(nodes.only_b)}"] if nodes.only_b else []
    return f"; b ran {' and '.join(parts)}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
