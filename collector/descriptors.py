"""How many descriptors this process may have, and which part of them who may hold."""

import contextlib
import resource

WANTED = 4096
"""Enough for everything at once; a service is often started with 1024, and may have more."""


def raise_limit() -> None:
    """Take as many as this process may have without asking anybody, up to WANTED."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # what there is has to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def share(part: int, most: int) -> int:
    """One in `part` of all descriptors, at least 2 and at most `most`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else max(2, min(most, soft // part))
