"""What must not end the watching: said in a sentence, with its traceback only when asked for."""

import logging
import os

from lockstep.terminal.output import DEBUG_VARIABLE

LOG = logging.getLogger(__name__)


def bug(what: str, error: Exception) -> None:
    """Say that something failed that should not have."""
    LOG.error(
        "%s: %s; this is a bug, and lockstep --debug shows where",
        what,
        f"{type(error).__name__}: {error}".partition("\n")[0],
        exc_info=error if os.environ.get(DEBUG_VARIABLE) else None,
    )
