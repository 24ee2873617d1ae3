"""GPUs through DCGM's host engine on this node, whose MIG instances stand beside them."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.gpu_reading import Gpu, GpuReading
from lockstep.collector.reading import SourceError
from lockstep.collector.sources.dcgm.bindings import INSTALLED, installed, load
from lockstep.collector.sources.dcgm.session import Session

__all__ = ["INSTALLED", "Dcgm"]


class Dcgm:
    """Source of GpuReading; connects to the host engine that runs on this node.

    The bindings are looked for at every reading until they are there; a lost connection is made
    anew at the next. Of a MIG device DCGM tells its identity, memory and activity, but no uuid of
    NVIDIA's: it is named by its parent's, as `GPU-…/gi7`.
    """

    name = "dcgm"

    def __init__(self, clock: Clock, folders: Sequence[Path] = INSTALLED) -> None:
        self._clock = clock
        self._folders = folders
        self._session: Session | None = None
        self._number = itertools.count()
        self._known: dict[int, Gpu] = {}

    def available(self) -> bool:
        """Whether the bindings are installed."""
        return installed(self._folders)

    def why_not(self) -> str:
        """What is missing."""
        return f"pydcgm is in none of {', '.join(str(one) for one in self._folders)}"

    def read(self) -> GpuReading:
        """The latest value of every field of every GPU.

        Raises:
            SourceError: The bindings cannot be imported, or the host engine does not answer.
        """
        try:
            if self._session is not None and self._session.outdated():
                self._session = None  # its groups go with it
            if self._session is None:
                name = f"lockstep-{os.getpid()}-{next(self._number)}"
                self._session = Session(load(self._folders), self._clock, name, self._known)
            return self._session.read()
        except SourceError:
            raise
        except Exception as error:
            self._session = None
            raise SourceError("host_engine", f"DCGM: {error!r}") from error

    def close(self) -> None:
        """Let go of the connection."""
        self._session = None
