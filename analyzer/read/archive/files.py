"""The small files of an archive, read with bounds: what lies in a folder is not trusted."""

import math
import reprlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from lockstep.analyzer.shapes.run import LoadError, Span
from lockstep.collector.contract import archive, bounded_json

MOST_BYTES = 16 << 20
"""Of a JSON file; ours are far smaller."""
LATEST = 32503680000.0
"""Unix seconds of the year 3000."""
LONGEST_NAME = 128
VERDICT_VERSION = 1
STATUSES = ("healthy", "degraded", "unknown")


class Problem(StrEnum):
    """Why a file of an archive says nothing."""

    ABSENT = "absent"
    REFUSED = "refused"
    DAMAGED = "damaged"


class ArchiveError(LoadError):
    """A file of an archive cannot be read.

    Attributes:
        problem: Why.
        sentence: Which file, and what is wrong with it; without a full stop.
        remedy: What would be right: a clause, or a command.
    """

    def __init__(self, problem: Problem, sentence: str, remedy: str) -> None:
        super().__init__(f"{sentence}; {remedy}")
        self.problem = problem
        self.sentence = sentence
        self.remedy = remedy


class Files:
    """The folder of one archive.

    Args:
        folder: Where it is.
        links: Whether links that lead out of it are followed: only if its owner asks.
    """

    def __init__(self, folder: Path, *, links: bool = False) -> None:
        self.folder = folder
        self.links = links

    def inside(self, name: str) -> Path | None:
        """A file of the archive; None where there is none, or a link that leads out of it."""
        path = self.folder / name
        try:
            if not path.exists():
                return None
            if self.links:
                return path
            home = self.folder.resolve()
            return path if path.resolve().is_relative_to(home) else None
        except PermissionError:
            return path  # whoever reads it gets the reason
        except (OSError, RuntimeError):
            return None

    def meta(self) -> Mapping[str, Any]:
        """run.json.

        Raises:
            ArchiveError: It is no archive, torn, of another schema, or may not be read.
        """
        if not self.folder.is_dir():
            raise ArchiveError(
                Problem.ABSENT, f"{self.folder} is not a folder",
                "give the folder of a run archive, as runs/<run>",
            )  # fmt: skip
        tree = self.document(archive.RUN_FILE)
        if tree is None:
            raise ArchiveError(
                Problem.ABSENT, f"{self.folder} holds no {archive.RUN_FILE}: it is no run archive",
                "give the folder of a run archive, as runs/<run>, or a folder of such folders",
            )  # fmt: skip
        version = tree.get("schema_version")
        if version != archive.SCHEMA_VERSION:
            raise ArchiveError(
                Problem.DAMAGED,
                f"{self.folder / archive.RUN_FILE} has schema_version {reprlib.repr(version)};"
                f" this version of Lockstep reads {archive.SCHEMA_VERSION}",
                "read it with the version of Lockstep that wrote it",
            )
        return tree

    def verdict(self) -> Mapping[str, Any] | None:
        """verdict.json (docs/reference/verdict.md), or the one that its report holds.

        None = nobody analyzed the run.

        Raises:
            ArchiveError: It is torn, of another schema, or of another shape.
        """
        tree = self.document(archive.VERDICT_FILE)
        if tree is None:
            reported = part(self.whole_document(f"{archive.REPORT_STEM}.json") or {}, "verdict")
            return reported if _is_verdict(reported) else None
        if not _is_verdict(tree):
            raise ArchiveError(
                Problem.DAMAGED,
                f"{self.folder / archive.VERDICT_FILE} is no verdict that this version reads",
                f"lockstep analyze {self.folder}",
            )
        return tree

    def finding(self) -> Mapping[str, Any] | None:
        """finding.json of `lockstep watch`; None where there is none that is whole."""
        return self.whole_document(archive.FINDING_FILE)

    def whole_document(self, name: str) -> Mapping[str, Any] | None:
        """A JSON object of the archive; None where there is none that is whole."""
        try:
            return self.document(name)
        except ArchiveError:
            return None

    def document(self, name: str) -> Mapping[str, Any] | None:
        """A JSON object of the archive, NaN and infinities as null; None where there is none.

        Raises:
            ArchiveError: It is torn, too large, no object, or may not be read.
        """
        path = self.inside(name)
        if path is None:
            return None
        try:
            tree = bounded_json.read(path, limit=MOST_BYTES, parse_constant=lambda _: None)
        except FileNotFoundError:
            return None
        except PermissionError:
            raise ArchiveError(
                Problem.REFUSED, f"{path} may not be read by this user", "let this user read it"
            ) from None
        except (OSError, ValueError) as error:
            raise ArchiveError(
                Problem.DAMAGED, f"{path} is no whole JSON ({str(error)[:120]})",
                "it may be half written: wait for the run to end, or remove the archive",
            ) from None  # fmt: skip
        if not isinstance(tree, dict):
            raise ArchiveError(
                Problem.DAMAGED, f"{path} is no JSON object", "remove it, or read another archive"
            )
        return tree


def run_id(meta: Mapping[str, Any], folder: Path) -> str:
    """Id of a run: that of run.json where it can stand in an address, else the folder's name."""
    name = meta.get("run") or meta.get("id")
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable():
        return name
    # A name with undecodable bytes has no place in an address or a page either.
    printable = "".join(each if each.isprintable() else "?" for each in folder.resolve().name)
    return printable[:LONGEST_NAME] or "archive"


def moment(value: object) -> float | None:
    """Unix seconds of an ISO date or a number; None where it is none."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value)
            value = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    seconds = number(value)
    return seconds if seconds is not None and 0 < seconds < LATEST else None


def number(value: object) -> float | None:
    """A finite number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        finite = float(value)
    except OverflowError:
        return None
    return finite if math.isfinite(finite) else None


def whole(value: object) -> int | None:
    """A whole number from 0; None where it is none."""
    finite = number(value)
    return int(finite) if finite is not None and 0 <= finite < 2**31 else None


def part(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A JSON object inside; empty where it is absent or something else."""
    value = meta.get(name)
    return value if isinstance(value, dict) else {}


def _is_verdict(tree: Mapping[str, Any]) -> bool:
    return (
        tree.get("schema_version") == VERDICT_VERSION
        and tree.get("status") in STATUSES
        and isinstance(tree.get("sentence"), str)
        and all(_objects(tree.get(name)) for name in ("culprits", "anomalies"))
    )


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


# What run.json of an archive that `lockstep watch` wrote says of its record.
#
# A finding that a verdict opened is about the windows of a span of samples, and so is the verdict
# about the archive. The archive may hold more: samples from before, and steps that the ranks' rings
# still held, which may all lie after the onset.

SPAN_KEY = "judged"
"""`start` and `end`, unix seconds of the samples that are judged; absent = all."""
ANSWERED_KEY = "answered"
"""`told` of `expected` ranks were known, of a run that was read in part; absent = read whole."""
MISSING_KEY = "missing"
"""What the record lacks, in words."""


def lacks(meta: Mapping[str, Any]) -> list[str]:
    """What the record lacks, in words."""
    told = meta.get(MISSING_KEY)
    return [each for each in told if isinstance(each, str)] if isinstance(told, list) else []


def judged_samples(meta: Mapping[str, Any], samples: pd.DataFrame) -> pd.DataFrame | None:
    """The samples that are judged: as from Prometheus, after the start and up to the end.

    None where run.json names no span, none that is one, or one without samples.
    """
    span = _span(meta)
    if span is None or samples.empty:
        return None
    # Prometheus has milliseconds (read.prometheus.ranges).
    at = (samples["time"] * 1000).round()
    inside = (at > math.floor(span.start * 1000)) & (at <= math.ceil(span.end * 1000))
    return samples[inside].reset_index(drop=True) if inside.any() else None


def _span(meta: Mapping[str, Any]) -> Span | None:
    told = part(meta, SPAN_KEY)
    start, end = number(told.get("start")), number(told.get("end"))
    return None if start is None or end is None or not start < end else Span(start, end)
