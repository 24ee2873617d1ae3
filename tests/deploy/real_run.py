"""A real run whose collectors a Prometheus is told of."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.runs.leftovers import SHARED_MEMORY

START_SECONDS = 300.0


@dataclass
class RealRun:
    """A run under way.

    Attributes:
        name: Its id.
        process: `lockstep run`.
        log: What it says.
    """

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def goes_on(self) -> None:
        """Raise, with its last words, if it has ended."""
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-4000:]


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
    log = archive.with_name(f"{archive.name}.log")
    with (
        log.open("wb") as words_of_run,
        subprocess.Popen(command, stderr=words_of_run, stdout=subprocess.DEVNULL) as run,
    ):
        under_way = RealRun("", run, log)
        try:
            deadline = time.monotonic() + START_SECONDS
            name, addresses = "", {}
            while len(addresses) < nodes:
                assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
                under_way.goes_on()
                time.sleep(0.1)
                with contextlib.suppress(OSError, ValueError):
                    name = json.loads((archive / "run.json").read_text())["run"]
                    addresses = {
                        path.stem: path.read_text().strip()
                        for path in (SHARED_MEMORY / name).glob("*.address")
                    }
            targets(addresses)
            yield replace(under_way, name=name)
        finally:
            run.terminate()
            run.wait(240)
