"""What a finished run says last: the verdict in a sentence, and the command that tells more."""

import shlex
from contextlib import suppress
from pathlib import Path

from lockstep.terminal.output import CommandError


def next_command(archive: Path) -> str:
    """The command that tells why."""
    return f"lockstep analyze {shlex.quote(str(archive))}"


def verdict_sentence(archive: Path) -> str:
    """The verdict of a run, or why there is none; never raises, for the run went as it went.

    The archive keeps it (verdict.json), where one can be made and written.

    Returns:
        One sentence; empty where the analyzer is not installed, as in the image of ranks.
    """
    from lockstep.diagnose import diagnosis

    try:
        verdict = diagnosis.diagnose_archive(archive).verdict
        with suppress(OSError):  # of a disk that is full its sentence is said all the same
            diagnosis.write_verdict(verdict, archive)
        return verdict.sentence
    except CommandError as failure:
        return f"none: {failure.sentence}"
    except ModuleNotFoundError:
        return ""
    except Exception as error:  # noqa: BLE001 - a run is not spoilt by what is wrong with its verdict
        return f"none: {type(error).__name__}: {error}".partition("\n")[0]
