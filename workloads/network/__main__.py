"""`python -m lockstep.workloads.network NAMESPACE SCRATCH -- COMMAND`: on an emulated node.

The command sees the namespace's devices in /proc/net and /sys/class/net, and keeps this process'
id and parent.
"""

import os
import sys
from pathlib import Path

from lockstep.workloads.network import netns


def main() -> None:
    """Enter, then become the command."""
    namespace, scratch, _, *command = sys.argv[1:]
    try:
        netns.enter(namespace)
        netns.show_own_devices(Path(scratch))
        os.execvp(command[0], command)  # noqa: S606 - the launcher's own words
    except OSError as error:
        print(f"cannot run {command[0]} in namespace {namespace}: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
