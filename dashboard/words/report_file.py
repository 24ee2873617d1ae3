"""The files of a post-mortem, and its page sealed so that nothing in it runs or calls out."""

import base64
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from lockstep.collector.contract.archive import REPORT_STEM, TRACE_FILE, VERDICT_FILE
from lockstep.dashboard.address import utc
from lockstep.dashboard.shapes import Matrix, Severity

MAX_BYTES = 8 << 20
"""Of a page that is shown; a report takes less than 1 MB (issue 9)."""
SEAL = (
    b'<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    b" style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'\">"
)
"""Before everything else of the page: no script, no request, whatever follows.

SOURCE: Content Security Policy Level 3, section 3.3: a policy in a meta element holds for what
comes after it, and a later one can only be stricter."""
_FOREIGN = re.compile(
    rb"<\s*(script|iframe|frame|object|embed|form|base|portal|link)\b|http-equiv\s*=\s*[\"']?refresh",
    re.IGNORECASE,
)
"""What no report of ours holds. Refreshing is what a policy cannot forbid."""
FILES: tuple[tuple[str, str, str], ...] = (
    (f"{REPORT_STEM}.html", "HTML", "text/html"),
    (f"{REPORT_STEM}.md", "Markdown", "text/markdown"),
    (f"{REPORT_STEM}.json", "JSON", "application/json"),
    (TRACE_FILE, "Perfetto", "application/gzip"),
    (VERDICT_FILE, "Verdict", "application/json"),
)
"""Name, what people call it, and its type."""


@dataclass(frozen=True, slots=True)
class Files:
    """What of a post-mortem is in a folder.

    Attributes:
        folder: Of the archive.
        sizes: Bytes of each of FILES that is there, by name.
        written: Unix seconds of the page; None = there is none.
        analyzed: Unix seconds of the verdict; None = there is none.
    """

    folder: Path
    sizes: dict[str, int]
    written: float | None
    analyzed: float | None

    @property
    def outdated(self) -> bool:
        """Whether the run was analyzed again after the report; a report analyzes by itself."""
        return bool(self.written and self.analyzed and self.analyzed > self.written + 1.0)


def files(folder: Path) -> Files:
    """What is there; links and what is no plain file count as absent."""
    sizes, times = {}, {}
    for name, _, _ in FILES:
        try:
            status = os.stat(folder / name, follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            sizes[name], times[name] = status.st_size, status.st_mtime
    return Files(folder, sizes, times.get(FILES[0][0]), times.get(VERDICT_FILE))


def beside(folder: Path, finding: str) -> Path | None:
    """Folder of a finding's post-mortem, which `watch` keeps as OUT/<run>/<moment>-<culprit>.

    Args:
        folder: Of an archive of the same run.
        finding: Its id: the folder's name, or `<run>/<name>`.

    Returns:
        None where there is no report of it.
    """
    parts = finding.split("/")
    if len(parts) > min(2, len(folder.parents)) or {"", ".", ".."} & set(parts) or "\0" in finding:
        return None
    report_folder = folder.parents[len(parts) - 1].joinpath(*parts)
    return report_folder if files(report_folder).written is not None else None


def content(path: Path, most: int | None = None) -> bytes:
    """A file that is no link; at most so many bytes of it.

    Raises:
        OSError: It cannot be read.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        return file.read(-1 if most is None else most)


def sealed(page: bytes) -> str:
    """The page as an address for a frame; empty where it is none of ours or too large.

    A data address has an origin of its own: even if something ran there, it could reach neither
    the dashboard nor its cookies.
    """
    if len(page) > MAX_BYTES or _FOREIGN.search(page):
        return ""
    return "data:text/html;charset=utf-8;base64," + base64.b64encode(SEAL + page).decode()


def sentence(name: str, report: Files) -> tuple[str, Severity]:
    """Whether there is a report of a run or finding; plain text."""
    if report.written is None:
        step = "It was analyzed" if report.analyzed else "It was not analyzed"
        return f"There is no report of {name} yet. {step}.", Severity.NOTE
    text = f"The report of {name} was written at {utc(report.written)}"
    if report.outdated:
        return f"{text}, before its newest analysis; make it again.", Severity.WARNING
    return f"{text}.", Severity.OK


def windows(matrix: Matrix) -> pd.DataFrame:
    """One row a rank and window.

    Columns: `rank, start_seconds, first_step, value`; the last is the matrix' own, its unit in the
    name. What is not known is left out.
    """
    rows, times = matrix.values.shape
    steps = np.full(times, np.nan) if matrix.steps is None else matrix.steps
    value = f"{matrix.title} ({matrix.unit})"
    frame = pd.DataFrame({
        "rank": np.repeat(np.asarray(matrix.rows, dtype=object), times),
        "start_seconds": np.tile(matrix.times, rows),
        "first_step": np.tile(steps, rows),
        value: matrix.values.ravel(),
    })  # fmt: skip
    frame["first_step"] = frame["first_step"].astype("Int64")
    return frame[frame[value].notna()]
