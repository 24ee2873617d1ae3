"""Where every command starts: `lockstep`, and `python -m lockstep`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is still being read is no traceback."""
    try:
        from lockstep import cli
    except KeyboardInterrupt:
        return 130  # ExitCode.INTERRUPTED, which may not be there yet
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
