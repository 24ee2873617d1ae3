"""Archives that `lockstep watch` keeps: `OUT/<run>/<moment>-<culprit>`, read only and bounded."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.analyzer.findings.assessment import DEGRADED
from lockstep.analyzer.findings.finding_lifecycle import folder_of_run
from lockstep.analyzer.read.archive.files import Files
from lockstep.collector.contract.archive import VERDICT_FILE

MOST_FINDINGS = 200
"""Of a run, the newest: their folders begin with the moment."""
MOST_RUNS = 500


@dataclass(frozen=True, slots=True)
class Kept:
    """A finding's archive.

    Attributes:
        name: `<run>/<moment>-<culprit>`.
        folder: Where it is.
        told: finding.json, not trusted.
    """

    name: str
    folder: Path
    told: Mapping[str, Any]


def kept(findings: Path | None, run: str = "") -> tuple[Kept, ...]:
    """The findings that have an archive, newest first; of one run, or of all."""
    if findings is None:
        return ()
    homes = [findings / folder_of_run(run)] if run else _inside(findings)[:MOST_RUNS]
    archives = []
    for home in homes:
        for folder in _inside(home)[:MOST_FINDINGS]:
            finding = Files(folder).finding()
            if finding is not None and (not run or finding.get("run") == run):
                archives.append(Kept(f"{home.name}/{folder.name}", folder, finding))
    return tuple(sorted(archives, key=lambda one: one.folder.name, reverse=True))


def verdict(findings: Path | None, run: str) -> Mapping[str, Any] | None:
    """The newest verdict of a run among its findings, as watch tells of the run."""
    for one in kept(findings, run):
        document = Files(one.folder).whole_document(VERDICT_FILE)
        if document is not None and document.get("schema_version") == 1:
            return _with_told(document)
    return None


def _with_told(verdict: Mapping[str, Any]) -> Mapping[str, Any]:
    """Whom watch reported is named here, also where the telemetry in the archive names others.

    A live run is shown as watch tells of it; what an archive alone says is the archive's own page.
    """
    history = [
        entry for entry in _list(verdict.get("history"))
        if isinstance(entry, dict) and entry.get("place_agrees") is False
    ]  # fmt: skip
    if not history:
        return verdict
    named = [*history, *_list(verdict.get("culprits"))]
    return {
        **verdict,
        "status": DEGRADED,
        "sentence": history[0].get("sentence"),
        "culprits": named,
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _inside(folder: Path) -> list[Path]:
    try:
        folders = [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    except OSError:
        return []
    return sorted(folders, key=lambda one: one.name, reverse=True)
