"""The verdict about several runs in a sentence or two."""

from collections.abc import Sequence

from analyzer.cluster.shape import RunView
from analyzer.run import Culprit
from analyzer.shared_part import Part

MOST = 4
"""Names in a list; of more, how many."""


def quiet(views: Sequence[RunView]) -> str:
    """No two runs were slow at the same time."""
    slow = [view.run for view in views if view.slow]
    dark = [view.run for view in views if not view.known]
    words = f"No two of {len(views)} runs were slow at the same time"
    words += f"; only {slow[0]} was slow" if len(slow) == 1 else ""
    words += f"; of {listed(dark)} it cannot be said" if dark else ""
    return f"{words}."


def unjudged(views: Sequence[RunView]) -> str:
    """No two runs were seen slow at the same time; of some it cannot be said."""
    slow = [view.run for view in views if view.known and view.slow]
    dark = [view.run for view in views if not view.known]
    words = f"Unknown: no two of {len(views)} runs were seen slow at the same time, but"
    words += f" {listed(slow)} {'was' if len(slow) == 1 else 'were'} slow and" if slow else ""
    return f"{words} of {listed(dark)} it cannot be said."


def separate(slow: Sequence[RunView], culprits: Sequence[Culprit]) -> str:
    """Each run has a culprit of its own, for a reason of its own."""
    pairs = zip(slow, culprits, strict=True)
    own = [f"{view.run} by {each.who} ({each.cause})" for view, each in pairs]
    return (
        f"{len(slow)} runs were slow at the same time, each for a reason of its own:"
        f" {listed(own)}. Nothing that they share is needed to explain it."
    )


def shared(
    slow: Sequence[RunView], healthy: Sequence[RunView], part: Part, confidence: float,
    missing: Sequence[str],
) -> str:  # fmt: skip
    """One part is named."""
    who = listed([view.run for view in slow])
    well = f" and none of {len(healthy)} healthy ones does" if healthy else ""
    return (
        f"{str(part)[0].upper()}{str(part)[1:]} probably holds {len(slow)} runs back ({who}): all"
        f" of them use it{well}. Confidence in that part {confidence:.2f}.{_absent(missing)}"
    )


def unknown(
    slow: Sequence[RunView], healthy: Sequence[RunView], possible: Sequence[Part],
    missing: Sequence[str],
) -> str:  # fmt: skip
    """None is, or too many are."""
    begin = f"Unknown: {len(slow)} runs were slow at the same time"
    begin += f" ({listed([view.run for view in slow])})"
    if possible:
        names = [str(part) for part in possible]
        well = f" and by none of {len(healthy)} healthy runs" if healthy else ""
        return (
            f"{begin}, and each of these parts is used by all of them{well}:"
            f" {listed(names)}.{_absent(missing)}"
        )
    return (
        f"{begin}, and no part that is known is used by all of them and by no healthy run: what"
        f" remains is something that all runs use, several faults, or accident.{_absent(missing)}"
    )


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    rest = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {rest} more" if rest > 0 else "")


def _absent(missing: Sequence[str]) -> str:
    return f" Missing: {'; '.join(missing)}." if missing else ""


def left_out(others: Sequence[RunView]) -> str:
    """That emulated and real nodes are not compared."""
    each = "run is" if len(others) == 1 else "runs are"
    kind, other = ("emulated", "real") if others[0].emulated else ("real", "emulated")
    return (
        f"{len(others)} {each} left out ({listed([view.run for view in others])}): of {kind} nodes,"
        f" and {other} ones of the same names are other machines."
    )
