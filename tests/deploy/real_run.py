"""A real run whose collectors a Prometheus is told of."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.leftovers import SHARED_MEMORY

START_SECONDS = 120.0


@dataclass
class RealRun:
    """A run under way.

    Attributes:
        name: Its id.
        process: `lockstep run`.
    """

    name: str
    process: "subprocess.Popen[bytes]"


@contextlib.contextmanager
def real_run(
    archive: Path,
    words: list[str],
    nodes: int,
    targets: Callable[[Mapping[str, str]], None],
    program: Sequence[str] = (),
) -> Iterator[RealRun]:
    """`lockstep run` with these words until the block ends; `targets` is told its collectors.

    A program of its own stands behind `--exec --`.
    """
    command = [sys.executable, "-m", "lockstep", "run", *words, "--nodes", str(nodes),
               "--no-verdict", "--out", str(archive)]  # fmt: skip
    command += ["--exec", "--", *program] if program else []
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
        try:
            deadline = time.monotonic() + START_SECONDS
            name, addresses = "", {}
            while len(addresses) < nodes:
                assert time.monotonic() < deadline
                assert run.poll() is None
                time.sleep(0.1)
                with contextlib.suppress(OSError, ValueError):
                    name = json.loads((archive / "run.json").read_text())["run"]
                    addresses = {
                        path.stem: path.read_text().strip()
                        for path in (SHARED_MEMORY / name).glob("*.address")
                    }
            targets(addresses)
            yield RealRun(name, run)
        finally:
            run.terminate()
            run.wait(240)
