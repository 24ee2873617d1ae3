"""Ledgers of archives, of a run that a Prometheus or a log alone tells of, and of faults."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis, newest, sources
from lockstep.terminal.output import Progress, fail

if TYPE_CHECKING:
    from lockstep.analyzer.ledger.faults import Fleet
    from lockstep.analyzer.ledger.ledger import Ledger

MOST_TRACE_BYTES = 1 << 30


def of_archives(folders: Sequence[Path]) -> "tuple[Ledger, ...]":
    """One ledger a run; archives of one run are its attempts. A folder of archives stands for them.

    Raises:
        CommandError: 65, one of them is no archive.
    """
    from lockstep.analyzer.ledger.attempt import attempt_of, chains
    from lockstep.analyzer.ledger.ledger import ledger

    meant = list(dict.fromkeys(archive for folder in folders for archive in _archives(folder)))
    show = Progress()
    attempts = []
    try:
        for number, archive in enumerate(meant, 1):
            show("reading", f"{number} of {len(meant)}: {archive.name}")
            diagnosed = diagnosis.diagnose_archive(archive)
            attempts.append(attempt_of(diagnosed, archive.resolve().name))
    finally:
        show.close()
    return tuple(ledger(job) for job in chains(attempts))


def of_prometheus(url: str, run: str, since: str | None, until: str | None) -> "tuple[Ledger, ...]":
    """The ledger of a run that a Prometheus recorded.

    Raises:
        CommandError: As `sources.diagnose_prometheus`.
    """
    from lockstep.analyzer.ledger.attempt import attempt_of
    from lockstep.analyzer.ledger.ledger import ledger

    diagnosed = sources.diagnose_prometheus(url, run, since, until, push_down=False)
    return (ledger([attempt_of(diagnosed)]),)


def of_log(path: Path, ranks: int) -> "tuple[Ledger, ...]":
    """The ledger of a run of which there is a log alone.

    Raises:
        CommandError: 65, it has no iteration line with its time.
    """
    from lockstep.analyzer.ledger.attempt import attempt_of
    from lockstep.analyzer.ledger.ledger import ledger
    from lockstep.analyzer.read import iteration_log
    from lockstep.analyzer.shapes.run import LoadError
    from lockstep.analyzer.verdict import pipeline

    try:
        run = iteration_log.read(path, ranks)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))
    return (ledger([attempt_of(pipeline.diagnose(run))]),)


def of_faults(path: Path, nodes: int | None, days: float | None) -> "Fleet":
    """MTBF, MTTR and availability of a trace of faults.

    Raises:
        CommandError: 65, it is none, or not of so few nodes or days.
    """
    from lockstep.analyzer.ledger.faults import read_faults, reliability
    from lockstep.analyzer.shapes.run import LoadError

    try:
        trace = bounded_json.read(path, limit=MOST_TRACE_BYTES)
        return reliability(read_faults(trace), nodes, days)
    except (LoadError, ValueError) as error:
        fail(ExitCode.BAD_INPUT, f"{path}: {error}")
    except OSError as error:
        fail(ExitCode.BAD_INPUT, f"{path} cannot be read: {error.strerror}")


def _archives(folder: Path) -> list[Path]:
    """The archive that a folder is, or those in it; of anything else the reader says what is so."""
    if (folder / RUN_FILE).exists():
        return [folder]
    return newest.archives_in(folder) or [folder]
