"""The dashboard's server, a process: `python -m lockstep.dashboard PARENT HOST PORT ...`.

`lockstep dashboard` starts it, and it ends with that one, however that one ends.
"""

import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from lockstep.terminal.processes import die_with_parent

HOSTS_VARIABLE = "STREAMLIT_SERVER_ALLOWED_HOSTS"
"""Streamlit's own: names under which a proxy on this machine is reached."""
MOST_DESCRIPTORS = 1 << 16
"""A connection that says nothing keeps one until its deadline; a shell gives 1,024 of the hundreds
of thousands that a process may take."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def main(words: Sequence[str]) -> None:
    """Serves until it is ended.

    Args:
        words: Process id of the parent, host, port, and the file of secrets where there is one.
    """
    parent, host, port, *secrets = words
    die_with_parent(int(parent), signal.SIGTERM)
    take_descriptors()
    from streamlit.web import cli

    from lockstep.dashboard.serve.deadline import install

    install()
    cli.main(
        ["run", str(Path(__file__).parent / "serve" / "server.py"), *options(host, port, secrets)],
        prog_name="dashboard",
    )


def take_descriptors() -> None:
    """As many as the process may take without a right of root's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def options(host: str, port: str, secrets: Sequence[str]) -> list[str]:
    """Streamlit's options; what does not depend on how it was started is in serve/.streamlit.

    Args:
        host: Where it listens.
        port: Likewise.
        secrets: At most one file.
    """
    chosen = {"--server.address": [host], "--server.port": [port], "--secrets.files": secrets}
    if host in LOOPBACK and HOSTS_VARIABLE not in os.environ:
        # A page of somebody else's whose name points to this machine (DNS rebinding) stays out.
        chosen["--server.allowedHosts"] = LOOPBACK
    return [word for name, values in chosen.items() for value in values for word in (name, value)]


if __name__ == "__main__":
    main(sys.argv[1:])
