"""The real server in this process, over a folder of small archives, with a program that is fake."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import lockstep
from lockstep.bench.api import starting as starting_module
from lockstep.bench.api.access import Bearer
from lockstep.bench.api.app import application
from lockstep.bench.api.reading import Reading
from lockstep.bench.api.server import Server
from lockstep.bench.api.starting import Starting
from lockstep.collector.config import Address
from lockstep.dashboard.starting import process
from lockstep.dashboard.starting import world as kinds
from lockstep.workloads.sdk.client import client as client_module
from tests.dashboard.archives import Made, write

FAKE = Path(__file__).with_name("fake_program.py")
TOKEN = "a-token-of-the-tests"


@dataclass(frozen=True, slots=True)
class Api:
    url: str
    folder: Path
    starting: Starting
    client: lockstep.Client

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {TOKEN}"}


@contextmanager
def served(runs: Path) -> Iterator[Api]:
    """With one archive, `made-1`, of 4 ranks and 20 steps, with a verdict."""
    write(runs / "made-1", Made(run="made-1", steps=20, slow=2, onset=8, parts=1))
    starting = Starting(runs, (sys.executable, str(FAKE)))
    bearer = Bearer(lambda: TOKEN.encode())
    server = Server(application(Reading(runs), bearer, starting), Address("127.0.0.1", 0))
    server.start()
    url = f"http://{server.address}"
    with pytest.MonkeyPatch.context() as patch, lockstep.Client(url, token=TOKEN) as client:
        patch.setattr(kinds, "refused", dict)
        for module in (starting_module, client_module):
            patch.setattr(module, "LOOK_SECONDS", 0.05)
        patch.setattr(process, "PATIENCE", ((process.signal.SIGINT, 20.0),))
        try:
            yield Api(url, runs, starting, client)
        finally:
            starting.close()
            server.stop()
