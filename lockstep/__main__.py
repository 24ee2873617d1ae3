"""Where every command starts: `lockstep`, and `python -m lockstep`."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""ExitCode.INTERRUPTED, which may not be there yet."""
UNREACHABLE = 69
"""ExitCode.UNREACHABLE, likewise."""
NO_COMMANDS = (
    "lockstep: the command line is not installed here, only what records a training program;"
    " pip install 'lockstep-monitor[cli]' brings it"
)


def main() -> int:
    """Run the command line; Ctrl-C before and after its command is no traceback, either."""
    try:
        from lockstep import app

        return app.main()
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        print(NO_COMMANDS, file=sys.stderr)
        return UNREACHABLE
    finally:
        # Python ends by SIGINT, not by our 130, where Ctrl-C came inside an eval() of a text, and
        # no text was evaluated since (exit_sigint in Modules/main.c).
        exec("")  # noqa: S102
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Ends a process that only has to go yet: it waits for threads, or unloads libraries."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
