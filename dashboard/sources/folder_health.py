"""Whether the archives of a folder can be read, and are whole."""

from collections.abc import Sequence

from lockstep.dashboard.shapes import Check, Severity
from lockstep.dashboard.sources.archive_index import Entry
from lockstep.dashboard.trouble import TroubleError

MOST_NAMED = 3
MOST_LOOKED_AT = 50
"""Of the newest archives: each part of their tables is looked at."""


def unreadable(entries: Sequence[Entry]) -> list[str]:
    """A sentence or two for each archive that cannot be read: why, and what would be right."""
    torn = [(each.folder.name, each.trouble) for each in entries if each.trouble is not None]
    said = [
        f"Archive {name[:80]} cannot be read: {trouble.sentence[:300].rstrip('.')}."
        f" {trouble.next_step}"
        for name, trouble in torn[:MOST_NAMED]
    ]
    if len(torn) > MOST_NAMED:
        said.append(f"{len(torn) - MOST_NAMED:,} more archives cannot be read.")
    return said


def checks(entries: Sequence[Entry]) -> tuple[Check, ...]:
    """How many can be read, then each that cannot, then each that is damaged."""
    torn = [each for each in entries if each.trouble is not None]
    good = [each for each in entries if each.readable]
    looked = good[:MOST_LOOKED_AT]
    damaged = [(each, damage) for each in looked if (damage := _damage(each))]
    if not good:
        first = Check("Archives", Severity.CRITICAL, "none can be read")
    else:
        text = f"{len(good):,} of {len(entries):,} can be read"
        if len(looked) < len(good):
            text += f"; of the newest {len(looked)}, the files were looked at"
        # Those that cannot be read have lines of their own, as far as there is room.
        bad = Severity.WARNING if len(torn) > MOST_NAMED else Severity.NOTE
        first = Check("Archives", bad if torn else Severity.OK, text)
    return (
        first,
        *(
            Check(f"Archive {each.folder.name[:80]}", Severity.WARNING,
                  "cannot be read: " + each.trouble.sentence[:300], each.trouble.next_step)
            for each in torn[:MOST_NAMED] if each.trouble is not None
        ),
        *(
            Check(f"Archive {each.folder.name[:80]}", Severity.WARNING, "; ".join(damage)[:300],
                  "Its pages count only what is left; the recorder was killed, or the disk was"
                  " full.")
            for each, damage in damaged
        ),
    )  # fmt: skip


def _damage(entry: Entry) -> tuple[str, ...]:
    try:
        return entry.source.damage()
    except TroubleError as trouble:  # it went away meanwhile
        return (trouble.sentence,)


def about(newest: Entry, count: int) -> str:
    """Of which run the checks after those of the folder are."""
    if count < 2:
        return ""
    return (
        f"What follows the archives is of run {newest.row.run[:80]}, the newest of {count:,};"
        " choose another run in the sidebar to see its own."
    )
