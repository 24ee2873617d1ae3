"""What people wrote of a run: tags and notes, in `notes.json` beside its archive.

Of an archive it lies in the folder, beside `run.json`; of findings that `lockstep watch` keeps, in
the folder of their run. It is the only thing that the dashboard writes there, and nothing else of
an archive is ever changed. The file is not trusted when it is read.
"""

import json
import re
import threading
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import FINDING_FILE
from lockstep.collector.contract.whole_file import write_whole
from pathlib import Path



FILE = "notes.json"
SCHEMA_VERSION = 1
TAG = re.compile(r"[\w][\w.:/-]{0,39}")
MOST_TAGS, MOST_NOTES, LONGEST_NOTE, LONGEST_NAME = 20, 200, 2000, 200
WIDEST = 12
"""Bytes of a character as JSON: two escapes, as other writers have them; of ours six at most."""
MOST_BYTES = (
    1024
    + MOST_TAGS * (WIDEST * 40 + 64)
    + MOST_NOTES * (WIDEST * (LONGEST_NOTE + LONGEST_NAME) + 256)
)
"""As large as all that is allowed, and its braces, can be."""
LATEST = 1e11
"""Unix seconds that a moment is below: the year 5138."""
_LOCK = threading.Lock()


class UnwritableError(Exception):
    """It cannot be kept; its text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note: when (unix seconds), by whom, and what; plain text."""

    at: float
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class Notes:
    """All of a run, notes in the order in which they were written."""

    tags: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


def home(folder: Path) -> Path:
    """Where the notes of a run lie: in its archive, or in the folder of its findings."""
    return folder.parent if (folder / FINDING_FILE).exists() else folder


def read(folder: Path) -> Notes:
    """What was written; what is no note of ours is as if it were not there."""
    try:
        return _read(home(folder) / FILE)
    except (OSError, ValueError):
        return Notes()


def _read(path: Path) -> Notes:
    """None where there is no file; OSError or ValueError where there is one that does not read."""
    if path.is_symlink():
        raise ValueError("it is a link")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} bytes")
        document = bounded_json.loads(path.read_text("utf-8", "replace"))
    except FileNotFoundError:
        return Notes()
    if not isinstance(document, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - a file's content, not an argument
    return Notes(tags_of(_list(document.get("tags"))), tuple(_notes(_list(document.get("notes")))))


def tags_of(words: Sequence[object]) -> tuple[str, ...]:
    """Those that are tags (letters, digits and `.:/_-`, at most 40), each once."""
    tags = [word for word in words if isinstance(word, str) and TAG.fullmatch(word)]
    return tuple(dict.fromkeys(tags))[:MOST_TAGS]


def tagged(folder: Path, tags: Sequence[str]) -> None:
    """The run has these tags from now on, and no other.

    Raises:
        UnwritableError: They cannot be kept.
    """
    _change(folder, lambda before: replace(before, tags=tags_of(tags)))


def noted(folder: Path, note: Note) -> None:
    """One more note.

    Raises:
        UnwritableError: It cannot be kept, or there are too many.
    """

    def more(before: Notes) -> Notes:
        if len(before.notes) >= MOST_NOTES:
            raise UnwritableError(f"This run has {MOST_NOTES} notes already; take one away.")
        short = Note(note.at, note.by[:LONGEST_NAME], note.text[:LONGEST_NOTE])
        return replace(before, notes=(*before.notes, short))

    _change(folder, more)


def withdrawn(folder: Path, note: Note) -> None:
    """Without a note.

    Raises:
        UnwritableError: What is left cannot be kept.
    """
    _change(folder, lambda before: replace(
        before, notes=tuple(each for each in before.notes if each != note)
    ))  # fmt: skip


def _change(folder: Path, change: Callable[[Notes], Notes]) -> None:
    where = home(folder)
    with _LOCK:
        try:
            before = _read(where / FILE)
        except (OSError, ValueError) as error:
            raise UnwritableError(
                f"{where / FILE} does not read, so it is left as it is: mend it, or move it away."
            ) from error
        now = change(before)
        document = {
            "schema_version": SCHEMA_VERSION, "tags": list(now.tags),
            "notes": [{"at": note.at, "by": note.by, "text": note.text} for note in now.notes],
        }  # fmt: skip
        try:
            text = json.dumps(document, indent=1, ensure_ascii=False)
            write_whole(where / FILE, text.encode(errors="replace"))
        except OSError as error:
            raise UnwritableError(
                f"Notes of this run cannot be kept in {where}: {error.strerror}."
            ) from error


def _notes(values: Sequence[object]) -> list[Note]:
    return [
        Note(float(each["at"]), str(each.get("by", ""))[:LONGEST_NAME],
             str(each["text"])[:LONGEST_NOTE])
        for each in values[:MOST_NOTES]
        if isinstance(each, dict) and isinstance(each.get("at"), int | float)
        and 0 <= each["at"] < LATEST and each.get("text")
    ]  # fmt: skip


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
