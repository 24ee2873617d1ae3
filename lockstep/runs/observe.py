"""Runs a workload under observation: collectors, ranks, recorder, and the archive they leave."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from lockstep.collector.contract.words import ExitCode
from lockstep.runs import archive, claim
from lockstep.runs import cluster_options as submission
from lockstep.runs.archive import LOGS, Recording
from lockstep.runs.launching import (
    collector_addresses,
    exit_on_refusal,
    look_at_data,
    pods_of,
    start_ranks,
)
from lockstep.runs.node_collectors import NodeCollectors
from lockstep.terminal.interrupts import Interrupts
from lockstep.terminal.output import Progress as Show
from lockstep.terminal.output import fail
from lockstep.workloads.launch.external_program.launcher import Programs
from lockstep.workloads.launch.launcher import Ending, Handle, Outcome, Progress
from lockstep.workloads.launch.local import Janitor, Ranks
from lockstep.workloads.launch.mpirun.ranks import MpirunRanks
from lockstep.workloads.launch.processes import COMMAND_FILE, OWNER_FILE, SHARED_MEMORY, owner
from lockstep.workloads.loop.resume import about
from lockstep.workloads.network.emulated import EmulatedNetwork, emulated
from lockstep.workloads.spec import PROGRAM, RunSpec
from lockstep.workloads.tasks.registry import find

if TYPE_CHECKING:
    from lockstep.collector.recorder.recorder import Recorder


# The progress of a run in one line: steps, loss, tokens a second, and the time left.

BAR_CELLS = 20
UNSEEN = (
    "; the program goes on, and is watched by its hardware and for hangs alone: --step-pattern says"
    " how its log reports steps"
)


class TrainingProgress:
    """Shows each progress of a run; on a terminal as a bar."""

    def __init__(self, spec: RunSpec, show: Show) -> None:
        self._show = show
        task, resume = find(spec.workload), spec.training.resume
        self._sample, self._per_step = task.sample, task.per_step(spec)
        self._started_at = 0 if resume is None else about(Path(resume)).step
        self._first: tuple[int, float] | None = None

    def __call__(self, progress: Progress) -> None:
        """Show it."""
        if progress.unseen_seconds is not None:
            self._show("watching", f"no step was seen for {progress.unseen_seconds:.0f} s{UNSEEN}")
            return
        parts = [f"step {progress.step} of {progress.steps or '?'}"]
        if self._show.terminal and progress.steps:
            share = progress.step / progress.steps
            parts = [f"{bar(share)} {progress.step}/{progress.steps}"]
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.3f}")
        rate = self._steps_per_second(progress.step, monotonic())
        if rate is not None:
            parts.append(f"{rate * self._per_step:,.0f} {self._sample}/s")
            if progress.steps:
                parts.append(f"{clock((progress.steps - progress.step) / rate)} left")
        self._show("training", ", ".join(parts))

    def _steps_per_second(self, step: int, now: float) -> float | None:
        """Since the first step that was seen to end: before it, the ranks were starting."""
        if self._first is None:
            self._first = (step, now) if step > self._started_at else None
            return None
        begin, since = self._first
        return (step - begin) / (now - since) if now > since else None


def bar(share: float) -> str:
    """A bar that is filled to a share of 0 to 1."""
    full = round(BAR_CELLS * min(1.0, max(0.0, share)))
    return f"[{'#' * full}{'.' * (BAR_CELLS - full)}]"


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss, or m:ss below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


T = TypeVar("T")


def execute(
    spec: RunSpec,
    out: Path,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_data: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run `spec` and leave its archive in `out`.

    Every emulated node has a collector of its own, whose page is scraped once a second. Whatever
    happens, Ctrl-C included, no process, ring, cgroup or namespace stays, and the archive can be
    read.

    Args:
        spec: What to run.
        out: Folder of the archive; must not exist or be empty. Nobody else takes it meanwhile.
        on_progress: Called whenever the slowest rank has completed another step.
        on_data: Called before the user's own data are prepared, which may take minutes.

    Raises:
        CommandError: 64, `out` is in use; 65, the data are wrong, and nothing is left; 69, shared
            memory or a collector cannot be had; 70, the archive could not be written whole.
    """
    workspace = SHARED_MEMORY / spec.run
    interrupts = Interrupts()
    with interrupts.noted(), ExitStack() as stack:
        stack.enter_context(claim.claim_new_folder(out))
        _own(workspace, spec)
        janitor = Janitor(spec.run, workspace)
        stack.callback(janitor.dismiss)
        with interrupts.heeded():
            look_at_data(spec, workspace, on_data)
        started = archive.now()
        asked = submission.submitted(os.environ)
        _written(out, lambda: archive.write_start(out, spec, started, asked))

        def write_so_far(recording: Recording) -> None:
            with suppress(OSError):  # a full disk is told at the end, and ends no run
                archive.write_so_far(out, spec, started, recording, asked)

        outcome, recording = _observed(
            spec, out, workspace, on_progress, interrupts, write_so_far
        )  # fmt: skip
        _written(out, lambda: archive.write_end(out, spec, started, outcome, recording, asked))
        if interrupts.came and outcome.ending is not Ending.INTERRUPTED:
            raise KeyboardInterrupt  # too late for this run, and in time for what would follow it
    if recording.incomplete:
        fail(ExitCode.INTERNAL, f"the archive {out} is not whole: {recording.incomplete}")
    return outcome


def _written(out: Path, write: Callable[[], T]) -> T:
    try:
        return write()
    except OSError as error:
        fail(ExitCode.INTERNAL, f"the archive {out} cannot be written: {error}")


def run_observed(spec: RunSpec, out: Path, show: Show) -> Outcome:
    """`execute` with its progress shown; the same errors."""
    faults = ", ".join(fault.spec for fault in spec.faults)
    injected = f"; fault {faults}" if faults else ""
    layout = spec.layout
    started = f"{counted(layout.world, 'rank')} and {counted(layout.nodes, 'collector')}"
    show("starting", f"{started}{injected}")
    return execute(
        spec,
        out,
        TrainingProgress(spec, show),
        lambda: show("preparing data", spec.training.data),
    )


def counted(number: int, thing: str) -> str:
    """`1 rank`, `2 ranks`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _observed(
    spec: RunSpec,
    out: Path,
    workspace: Path,
    on_progress: Callable[[Progress], None],
    interrupts: Interrupts,
    write_so_far: Callable[[Recording], None],
) -> tuple[Outcome, Recording]:
    addresses = collector_addresses(spec)
    with (
        _network(spec, workspace, out / LOGS) as network,
        NodeCollectors(
            [] if addresses else list(spec.nodes), workspace, out / LOGS, network
        ) as collectors,
        ExitStack() as stack,
    ):
        ranks = start_ranks(spec, workspace, out / LOGS, network)
        stack.callback(ranks.end)
        pods = pods_of(spec)
        _written(out, lambda: archive.write_ranks(out, spec, pods))
        recorder = _written(out, lambda: collectors.recorder(out, spec.run, addresses))

        def known(recording: Recording) -> Recording:
            places = dict(recorder.places) if spec.workload == PROGRAM else {}
            return replace(_told_by(ranks, recording), places=places)

        def write_ranks(recording: Recording) -> None:
            """Who they are is known since the ranks run."""
            gpus = {} if spec.pace else recorder.gpus
            if gpus or recording.places:
                archive.write_ranks(out, spec, pods, gpus, recording.places)

        def write(recording: Recording) -> None:
            with suppress(OSError):  # as in `execute`
                write_ranks(recording)
            write_so_far(recording)

        recorder.start()
        try:
            outcome = _waited(ranks, _telling(known, on_progress, write), interrupts)
        finally:
            gone = archive.now()
            recording = known(replace(_stopped(recorder), ranks_ended=gone))
            _written(out, lambda: write_ranks(recording))
    return outcome, recording


def _telling(
    known: Callable[[Recording], Recording], on_progress: Callable[[Progress], None],
    write_so_far: Callable[[Recording], None],
) -> Callable[[Progress], None]:  # fmt: skip
    """`on_progress` that also writes what the launcher has found out, each time that is more."""
    written = Recording()

    def told(progress: Progress) -> None:
        nonlocal written
        now = known(Recording())
        if now != written:
            write_so_far(now)
            written = now
        on_progress(progress)

    return told


def _waited(
    ranks: Handle, on_progress: Callable[[Progress], None], interrupts: Interrupts
) -> Outcome:  # fmt: skip
    """How the run ended; no rank runs any more then.

    Those that ended well may hold their rings until `end`: they are recorded before it.
    """
    outcome = Outcome(Ending.INTERRUPTED, reason="interrupted by the user")
    try:
        with interrupts.heeded():
            outcome = exit_on_refusal(lambda: ranks.wait(on_progress))
    except BaseException:
        if not interrupts.came:
            raise
    finally:
        if outcome.ending is not Ending.FINISHED:
            ranks.end()
    return outcome


@contextmanager
def _network(
    spec: RunSpec, workspace: Path, logs: Path
) -> Iterator[EmulatedNetwork | None]:  # fmt: skip
    """The emulated network of a run that has link faults. Forks: no thread may run yet."""
    layout = spec.layout
    with ExitStack() as stack:
        try:
            network = stack.enter_context(
                emulated(
                    spec.run, layout.nodes, layout.ranks_per_node, spec.faults,
                    asked=spec.network == "namespaces",
                    seed=spec.seed, workspace=workspace, logs=logs,
                )
            )  # fmt: skip
        except OSError as error:
            fail(ExitCode.UNREACHABLE, f"the emulated network cannot be made: {error}")
        yield network


def _told_by(ranks: Handle, recording: Recording) -> Recording:
    """With what the launcher measured or found out."""
    if isinstance(ranks, Programs):
        means = dict(ranks.means)
        return replace(recording, means=means, own_time_known=ranks.own_time_known)
    if isinstance(ranks, Ranks | MpirunRanks):
        return replace(recording, peak_flops=ranks.peak_flops)
    return recording


def _stopped(recorder: "Recorder") -> Recording:
    """Close the archive's tables."""
    from lockstep.collector.recorder.recorder import RecorderError

    incomplete = ""
    try:
        recorder.stop()
    except RecorderError as error:
        incomplete = str(error)
    return Recording(recorder.errors, recorder.lost_steps, incomplete)


def _own(workspace: Path, spec: RunSpec) -> None:
    """The run's folder in shared memory, with our name on it, and how it was started."""
    command = spec.command(faults=False, taken=find(spec.workload).options)
    try:
        workspace.mkdir(parents=True)
        (workspace / OWNER_FILE).write_text(json.dumps(owner()))
        (workspace / COMMAND_FILE).write_text(command, "utf-8", "replace")
    except OSError as error:
        shutil.rmtree(workspace, ignore_errors=True)
        fail(ExitCode.UNREACHABLE, f"cannot write {error.filename}: {error.strerror}")
