"""The commands of a cell as processes: started, waited for, and ended; and the queue for them.

`lockstep run` ends its ranks itself when it is asked to stop, which is why it is asked first.
"""

import fcntl
import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lockstep.bench.plan import Step
from lockstep.bench.spec import BenchError
from lockstep.terminal.processes import kept, stop

GRACE_SECONDS = 90.0
"""For an orderly end: `lockstep run` deletes what it put onto a cluster, and waits for its pods for
up to a minute (lockstep.runs.on_cluster.GONE_SECONDS)."""
LAST_LINES = 12
_POLL_SECONDS = 0.05
RUNTIMES = ("docker", "podman")


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
        stop([self.process], GRACE_SECONDS, groups=True)
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
            kept(words), stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
            start_new_session=True,
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


# The queue: two benchmarks at once would measure each other. It is a lock of the kernel (flock(2)),
# which a killed process releases; its text says who holds it. On a cluster Kueue queues instead.

FILE = "lockstep-bench.queue"
VARIABLE = "LOCKSTEP_BENCH_QUEUE"
"""In the environment: the file of another queue, for what shares nothing with the rest."""
_QUEUE_POLL_SECONDS = 0.5


def default_file() -> Path:
    """Of this machine and user, unless the environment names another."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    folder = Path("/dev/shm")  # noqa: S108 - one lock for all shells of a user
    return (folder if folder.is_dir() else Path("/tmp")) / f"{FILE}.{os.getuid()}"  # noqa: S108


@contextmanager
def turn(
    who: str, file: Path, on_wait: Callable[[str], None], timeout: float | None = None
) -> Iterator[None]:
    """Wait until nobody else measures on this machine; then it is ours until the block ends.

    Args:
        who: What the next one is told that it waits for.
        on_wait: Called with who is before us, whenever that changes.
        timeout: Seconds; None = for ever.

    Raises:
        BenchError: It lasted too long, or the lock cannot be had at all.
    """
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchError(f"{file} cannot be opened: {error.strerror}") from error
    try:
        end, told = None if timeout is None else time.monotonic() + timeout, None
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                before = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "another"
            if before != told:
                on_wait(told := before)
            if end is not None and time.monotonic() >= end:
                raise BenchError(f"still behind {before} after {timeout:g} s; wait, or stop it")
            time.sleep(_QUEUE_POLL_SECONDS)
        os.ftruncate(handle, 0)
        os.pwrite(handle, who.encode()[:200], 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)
