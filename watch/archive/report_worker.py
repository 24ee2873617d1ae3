"""The process that writes reports for `lockstep watch`: a folder a line in, what came of it out.

It ends with its input, and with the process that started it, whatever ends that.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lockstep.collector.contract import bounded_json
from lockstep.terminal.output import CommandError
from lockstep.terminal.processes import die_with_parent


def write_report(archive: Path) -> None:
    """Diagnose an archive; write its verdict, and its report in every format.

    Two calls for one archive must not overlap: what is written last has then read last what
    finding.json says.

    Raises:
        CommandError: It is no archive, or cannot be diagnosed: its verdict says so.
        OSError: The files cannot be written.
    """
    from lockstep.diagnose import archive_stages, diagnosis

    try:
        diagnosed = diagnosis.diagnose_archive(archive, history=True)
    except CommandError as error:
        if archive.is_dir():
            diagnosis.write_verdict(archive_stages.undiagnosed(archive, error.sentence), archive)
        raise
    diagnosis.write_verdict(diagnosed.verdict, archive)
    diagnosis.write_reports(diagnosed, archive, diagnosis.FORMATS)


def written(archive: Path) -> str:
    """Write the report of an archive; why it was not written, "" = it was."""
    try:
        write_report(archive)
    except CommandError as error:
        return error.sentence
    except Exception as error:  # noqa: BLE001 - one archive must not end the others
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def main(argv: Sequence[str]) -> int:
    """Write what is asked until the input ends.

    Args:
        argv: The parent's process id.
    """
    _end_with(int(argv[0]))
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin.buffer:
        why = written(Path(bounded_json.loads(line)))
        os.write(output, json.dumps(why).encode() + b"\n")
    return 0


def _end_with(parent: int) -> None:
    """End with the parent; it alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    die_with_parent(parent, signal.SIGKILL)
