"""What a process that runs until a signal comes shares: its end, and its log."""

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lockstep.collector.contract.visible import VisibleFormatter


@contextmanager
def signals(ended: threading.Event) -> Iterator[set[int]]:
    """Ctrl-C and SIGTERM end it; which of them came."""
    came: set[int] = set()

    def end(number: int, frame: FrameType | None) -> None:
        came.add(number)
        ended.set()

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def log_warnings() -> None:
    """Warnings as lines on stderr."""
    # Its retries are told by who made the request, in words.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        VisibleFormatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
