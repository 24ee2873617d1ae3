"""Leaves this rank's flight-recorder dump beside its ring whenever somebody asks for it."""

import sys
from collections.abc import Callable
from pathlib import Path

from torch._C import _distributed_c10d

from lockstep.collector.contract.flight_recorder import dump_name, request_name
from lockstep.collector.contract.whole_file import write_whole

TRACE = "_dump_fr_trace_json"
"""torch's function, which some versions and builds do not have."""


class DumpOnRequest:
    """A beat of the helper thread: the training thread may be stuck, and is when it matters.

    A dump takes 0.2 ms and 500 bytes a collective (torch 2.13, gloo), and holds the GIL.
    """

    def __init__(self, folder: Path, run: str, rank: int) -> None:
        self._request = folder / request_name(run)
        self._dump = folder / dump_name(run, rank)
        self._answered = self._asked()

    def __call__(self) -> None:
        """Write a dump if the request is newer than the one answered last."""
        asked = self._asked()
        if asked == self._answered:
            return
        self._answered = asked
        if asked:
            try:
                self._write()
            except (OSError, AttributeError, RuntimeError) as error:
                # Not raised: the heartbeat goes on. The rank's log says it, for every request.
                print(f"no flight-recorder dump: {error}", file=sys.stderr)  # noqa: T201

    def _asked(self) -> int:
        """When the request was made last, in nanoseconds; 0 = there is none."""
        try:
            return self._request.lstat().st_mtime_ns
        except OSError:  # no request, or the folder is gone and nobody can ask here any more
            return 0

    def _write(self) -> None:
        dump: Callable[[], bytes] = getattr(_distributed_c10d, TRACE)
        write_whole(self._dump, dump(), mode=None)
