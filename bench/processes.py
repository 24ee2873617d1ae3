"""The commands of a cell as processes: started, waited for, and ended with all they started.

`lockstep run` ends its ranks itself when it is asked to stop, which is why it is asked first.
"""

import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lockstep.bench.plan import Step
from lockstep.bench.spec import BenchError

GRACE_SECONDS = 90.0
"""For an orderly end: `lockstep run` deletes what it put onto a cluster, and waits for its pods for
up to a minute (cluster_run.GONE_SECONDS)."""
LAST_LINES = 12
_POLL_SECONDS = 0.05
RUNTIMES = ("docker", "podman")
_KEEPER = (
    "import os, signal, subprocess, sys\n"
    "from lockstep.workloads.launch.processes import die_with_parent\n"
    "die_with_parent(int(sys.argv[1]), signal.SIGTERM)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)
"""Becomes the command, which then ends when the bench is killed (prctl(2) survives exec)."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a step ended; `code` None = it ran out of time."""

    code: int | None
    seconds: float


@dataclass(slots=True)
class Running:
    """A command that was started."""

    process: subprocess.Popen[bytes]
    begun: float
    container: tuple[str, str] | None = None
    """What runs containers, and the name of ours, which outlives its client."""

    def wait(self, timeout: float) -> Exit:
        """Its end; what runs longer is ended."""
        end = time.monotonic() + timeout
        while self.process.poll() is None:
            if time.monotonic() >= end:
                self.end()
                return Exit(None, self.seconds)
            time.sleep(_POLL_SECONDS)
        return Exit(self.process.returncode, self.seconds)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.begun

    def end(self) -> None:
        """Ask it to stop, then kill what is left of its group."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.container is not None:
            runtime, name = self.container
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [runtime, "rm", "--force", name], timeout=GRACE_SECONDS,
                    stdin=subprocess.DEVNULL, capture_output=True, check=False,
                )  # fmt: skip


def start(step: Step, folder: Path) -> Running:
    """Start a step's command in the cell's folder; its output goes into logs/ there.

    Raises:
        BenchError: There is no such program, or nothing that runs containers.
        OSError: A log cannot be written.
    """
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    name = f"lockstep-bench-{secrets.token_hex(6)}"
    words = _words(step, folder, name)
    if shutil.which(words[0]) is None:
        raise BenchError(f"step {step.name}: there is no program {words[0]}")
    with (
        (logs / f"{step.name}.out").open("wb") as out,
        (logs / f"{step.name}.err").open("wb") as err,
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", _KEEPER, str(os.getpid()), *words],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, start_new_session=True,
        )  # fmt: skip
    container = None if step.container is None else (words[0], name)
    return Running(process, time.monotonic(), container)


def by_hand(step: Step, folder: Path) -> str:
    """What a person types in the cell's folder to do a step; of a container, what runs it."""
    with suppress(BenchError):  # nothing here runs containers
        return shlex.join(_words(step, folder))
    return shlex.join(step.command)


def container_runtime() -> str | None:
    """The program that runs containers here."""
    return next((each for each in RUNTIMES if shutil.which(each)), None)


def last_lines(folder: Path, step: str, lines: int = LAST_LINES) -> str:
    """The end of what a step said on stderr, or else on stdout."""
    for name in (f"{step}.err", f"{step}.out"):
        with suppress(OSError):
            path = folder / "logs" / name
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 16_384))
                told = file.read().decode("utf-8", "replace").strip()
            if told:
                return "\n".join(told.splitlines()[-lines:])
    return ""


def sentence(folder: Path, step: str) -> str:
    """What a command of ours said was wrong, or the last line of any other."""
    lines = last_lines(folder, step).splitlines()
    ours = [each.removeprefix("lockstep: ") for each in lines if each.startswith("lockstep: ")]
    return (ours or lines or [""])[-1][:500]


def _words(step: Step, folder: Path, name: str = "") -> list[str]:
    if step.container is None:
        return list(step.command)
    runtime = container_runtime()
    if runtime is None:
        raise BenchError(
            f"step {step.name} is a container, and there is neither {' nor '.join(RUNTIMES)} here;"
            " install one, or give a command"
        )
    entry = ["--entrypoint", step.command[0]] if step.container.command else []
    rest = step.command[1:] if step.container.command else step.command
    return [
        runtime, "run", "--rm", "--init", *([f"--name={name}"] if name else []), "--network=host",
        f"--volume={folder}:{folder}", f"--workdir={folder}", *entry, step.container.image, *rest,
    ]  # fmt: skip
