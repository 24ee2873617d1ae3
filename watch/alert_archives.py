"""One alert: the archive that it belongs to, which says so from then on, or a fresh one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lockstep.analyzer.findings.alertmanager.webhook import (
    FINDING_ALERT,
    ReceivedAlert,
    matching_finding,
    with_alert,
)
from lockstep.analyzer.findings.alerts import of_alert
from lockstep.analyzer.findings.finding import WatchFinding
from lockstep.collector.contract.archive import REPORT_STEM
from lockstep.watch import finding_folders

PAGE = f"{REPORT_STEM}.html"
MOST_OWED = 100
"""Reports that a new process writes for the one before it."""


@dataclass(frozen=True, slots=True)
class WatchAccess:
    """What the watching part knows and does for post-mortems; called from another thread.

    Attributes:
        out: Folder of all archives.
        live: Runs that live now, by the node if one is given.
        archive: Writes the archive of a finding that watch itself did not find; its folder.
    """

    out: Path
    live: Callable[[str | None], Sequence[str]]
    archive: Callable[[WatchFinding], Path]


class EarlyError(Exception):
    """The archive that the alert belongs to may not be there yet."""


class UnmatchedError(Exception):
    """The alert is about no run that is known here; the message says what it is about."""


def noted_in(
    alert: ReceivedAlert, received: float, watched: WatchAccess, *, early: bool
) -> list[Path]:
    """Archives whose post-mortem is to be written now, since an alert is new in them.

    Args:
        alert: Firing or resolved.
        received: When we heard of it, unix seconds.
        watched: The watching part.
        early: Whether the archive of a finding about it may still be on its way.

    Raises:
        EarlyError: It is to be tried again.
        UnmatchedError: There is nothing to be done about it.
        OSError: The archive cannot be written.
    """
    run, node = alert.labels.get("run", ""), alert.labels.get("node", "")
    own = alert.labels.get("alertname") == FINDING_ALERT
    # Hardware may be found to deviate without a run.
    runs = [run] if run or own else list(watched.live(node)) if node else []
    known = finding_folders.findings(watched.out, runs)
    place = matching_finding(alert, runs, [finding for _, finding in known])
    if place is not None:
        folder, _ = known[place]
        new = _note(folder, alert, received)
        return [folder] if alert.firing and (new or not has_report(folder)) else []
    if not alert.firing:
        return []
    lives = [one for one in runs if one in watched.live(node or None)]
    if early and (own or lives):
        raise EarlyError
    if not lives:
        raise UnmatchedError(f"{'run' if run else 'node'} {run or node!r}")
    return [_fresh(alert, one, received, watched) for one in lives]


def has_report(folder: Path) -> bool:
    """Whether an archive has its report."""
    return (folder / PAGE).exists()


def archives_without_report(out: Path) -> list[Path]:
    """Archives of findings without a report, the newest first."""
    wanted = (folder for folder in finding_folders.newest(out) if not has_report(folder))
    return list(islice((one for one in wanted if finding_folders.read(one) is not None), MOST_OWED))


def _fresh(alert: ReceivedAlert, run: str, received: float, watched: WatchAccess) -> Path:
    folder = watched.archive(of_alert(alert, run, received))
    _note(folder, alert, received)
    return folder


def _note(folder: Path, alert: ReceivedAlert, received: float) -> bool:
    """Note an alert in finding.json; whether it is new there."""
    return finding_folders.update(folder, lambda finding: with_alert(finding, alert, received))
