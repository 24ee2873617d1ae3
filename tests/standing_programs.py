"""Real gloo programs that come to stand still: ranks of a layout, and one thing wrong in one.

Ranks are forked from a process without threads. What is looked at is what a node has: the dumps
that ranks write when they are asked (`workloads.flight_recorder`), states of processes, exit codes,
heartbeats, and the stacks that `faulthandler` writes. No clock, network or dump is simulated; the
model is: what a rank computes is a pause, and a rank whose collective raises stays, as in a program
whose end waits for something.
"""

import contextlib
import ctypes
import faulthandler
import json
import mmap
import os
import random
import resource
import shutil
import signal
import threading
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE, dump_name, request_name
from lockstep.workloads.measure.flight_recorder import DumpOnRequest
from lockstep.workloads.measure.heartbeat import Heartbeat
from tests.hang_programs import Layout

FAULTS = (
    "sigstop", "gil", "skipped", "shape", "loader", "dead", "checkpoint", "pipeline",
)  # fmt: skip
LAYOUTS = (
    Layout(4, 1, 1), Layout(8, 1, 1), Layout(4, 2, 1), Layout(2, 2, 1), Layout(2, 2, 2),
    Layout(2, 1, 2), Layout(1, 2, 4), Layout(1, 4, 2), Layout(2, 1, 4), Layout(3, 2, 1),
    Layout(4, 1, 1, 4), Layout(4, 2, 1, 4), Layout(4, 1, 2, 4), Layout(2, 2, 2, 4),
    Layout(3, 1, 2, 3),
)  # fmt: skip
STILL_SECONDS = 2.5
"""No rank does anything for so long: it stands."""
HEARTBEAT_SECONDS = 6.0
"""So long for a heartbeat to be old: a rank that holds Python's lock is alive but for that."""
PATIENCE = 25.0
"""A case that stands not until then is none."""
ANSWER_SECONDS = 2.0
BEAT_SECONDS = 0.2
CHECKPOINT_EVERY = 5
RUN = "standing"
PR_SET_PDEATHSIG = 1
"""prctl(2)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done in a case, all of it drawn from the seed.

    Attributes:
        fault: One of FAULTS, or "" for a run that is well.
        site: Which call of the step's is the one: of collectives (skipped, shape), else of places.
        outside: The rank is stopped or ended by the driver at any moment, not by itself.
        factor: By which the shape is another.
    """

    seed: int
    fault: str
    layout: Layout
    rank: int
    step: int
    site: int
    outside: bool
    factor: float
    pace: float
    microbatches: int
    overlap: bool


def planned(seed: int, fault: str) -> Plan:
    """The case of a seed."""
    dice = random.Random(f"{seed} {fault}")
    layouts = [one for one in LAYOUTS if one.pp > 1 or fault != "pipeline"]
    layout = dice.choice(layouts)
    return Plan(
        seed=seed, fault=fault, layout=layout, rank=dice.randrange(layout.world),
        step=dice.randint(4, 14), site=dice.randrange(64), outside=dice.random() < 0.5,
        factor=dice.choice((0.5, 0.5, 2.0)), pace=dice.uniform(0.002, 0.01),
        microbatches=dice.randint(1, 3), overlap=dice.random() < 0.5,
    )  # fmt: skip


class _Board:
    """What ranks tell the driver: how much they have done, and when their heartbeat was."""

    def __init__(self, world: int) -> None:
        self._memory = mmap.mmap(-1, 4096)
        self.world = world
        self.done = (ctypes.c_int64 * world).from_buffer(self._memory)
        self.steps = (ctypes.c_int64 * world).from_buffer(self._memory, 1024)
        self.beats = (ctypes.c_double * world).from_buffer(self._memory, 2048)


class _Images(Dataset[torch.Tensor]):
    """Samples; behind `until` the reader waits for one that never comes."""

    def __init__(self, until: int | None) -> None:
        self._until = until
        self._reader, self._writer = os.pipe()

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._until is not None and index >= self._until:
            os.close(self._writer)  # so that it comes to an end with the rank
            os.read(self._reader, 1)
        return torch.full((4,), float(index))


class _Rank:
    """One rank's program: read `train` from top to bottom."""

    def __init__(self, plan: Plan, rank: int, board: _Board, folder: Path) -> None:
        self.plan, self.rank, self.board, self.folder = plan, rank, board, folder
        self.mine = rank == plan.rank
        self.step = 0
        self.counts: Counter[str] = Counter()
        self.before: Counter[str] = Counter()
        self.groups: dict[str, dist.ProcessGroup] = {}
        self.sizes: dict[str, int] = {}

    def join(self) -> None:
        """The groups of the layout, in the order in which all make them."""
        dist.init_process_group(
            "gloo", init_method=f"file://{self.folder}/store", rank=self.rank,
            world_size=self.board.world, timeout=timedelta(seconds=600),
        )  # fmt: skip
        for kind, instances in self.plan.layout.groups().items():
            for ranks in instances:
                if kind == "default_pg" or len(ranks) == 1:
                    continue
                group = dist.new_group(list(ranks), group_desc=kind)
                if self.rank in ranks:
                    self.groups[kind], self.sizes[kind] = group, len(ranks)

    def train(self) -> None:
        """Steps until the end of the process."""
        layout, plan = self.plan.layout, self.plan
        stage = layout.dp * layout.tp
        before = self.rank - stage if self.rank >= stage else None
        behind = self.rank + stage if self.rank + stage < layout.world else None
        samples = self._samples()
        activation = torch.ones(64)
        while True:
            self.before, self.counts = self.counts, Counter()
            self._place()
            next(samples)
            for _ in range(plan.microbatches):
                self._receive(activation, before)
                self._layer(activation)
                self._send(activation, behind)
            for _ in range(plan.microbatches):
                self._receive(activation, behind)
                self._layer(activation)
                self._send(activation, before)
            self._gradients()
            self._collective("world", "all_reduce", 4)
            if self.step % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                self._checkpoint()
            self.step += 1
            self.board.steps[self.rank] = self.step

    def _layer(self, activation: torch.Tensor) -> None:
        sleep(self.plan.pace)
        self._place()
        self._collective("TENSOR_MODEL_PARALLEL_GROUP", "all_reduce", 64)
        if self.plan.layout.ep > 1:
            self._collective("EXPERT_MODEL_PARALLEL_GROUP", "all_to_all", 24)
            self._place()
            self._collective("EXPERT_MODEL_PARALLEL_GROUP", "all_to_all", 24)

    def _gradients(self) -> None:
        works = [
            self._collective("DATA_PARALLEL_GROUP", "all_reduce", size, self.plan.overlap)
            for size in (128, 32)
        ]
        for work in works:
            if work is not None:
                work.wait()

    def _samples(self) -> Any:
        stuck = self.mine and self.plan.fault == "loader"
        until = self.plan.step if stuck else None
        return iter(DataLoader(_Images(until), batch_size=1, num_workers=int(stuck)))

    def _collective(self, kind: str, op: str, size: int, later: bool = False) -> Any:
        """One collective, if this rank has such a group; the one that is wrong, where it is so."""
        if kind != "world" and kind not in self.groups:
            return None
        self.board.done[self.rank] += 1
        members = self.board.world if kind == "world" else self.sizes[kind]
        # Of two that differ nobody can tell which is wrong, and amounts of an all-to-all differ.
        if members > 2 and self._is_the_one(op if self.plan.fault == "shape" else "collective"):
            if self.plan.fault == "skipped":
                return None
            if self.plan.fault == "shape" and op == "all_reduce":
                size = int(size * self.plan.factor)
        group = self.groups.get(kind)
        tensor = torch.ones(size)
        if op == "all_to_all":
            tensor = torch.ones(size // members * members)
            work = dist.all_to_all_single(torch.empty_like(tensor), tensor, group=group)
        else:
            work = dist.all_reduce(tensor, group=group, async_op=later)
        self.board.done[self.rank] += 1
        return work

    def _is_the_one(self, counted: str) -> bool:
        """Whether this call is the planned one of as many as the step before had: all are alike."""
        seen = self.counts[counted]
        self.counts[counted] += 1
        due = self.mine and self.step == self.plan.step
        return due and seen == self.plan.site % self.before[counted]

    def _send(self, activation: torch.Tensor, to: int | None) -> None:
        if to is not None:
            if self.plan.fault == "pipeline":
                self._place()
            self.board.done[self.rank] += 1
            dist.send(activation, to)

    def _receive(self, activation: torch.Tensor, of: int | None) -> None:
        if of is not None:
            self.board.done[self.rank] += 1
            dist.recv(activation, of)

    def _place(self) -> None:
        """Between operations: where a rank may come to stand."""
        self.board.done[self.rank] += 1
        plan = self.plan
        if not self._is_the_one("place"):
            return
        if plan.fault in ("sigstop", "pipeline") and not plan.outside:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif plan.fault == "gil" or plan.fault == "pipeline":
            lock = ctypes.create_string_buffer(64)
            native = ctypes.PyDLL(None)  # calls of it hold Python's lock
            native.pthread_mutex_lock(lock)
            native.pthread_mutex_lock(lock)
        elif plan.fault == "dead" and not plan.outside:
            os.kill(os.getpid(), signal.SIGKILL)

    def _checkpoint(self) -> None:
        stuck = self.mine and self.plan.fault == "checkpoint" and self.step >= self.plan.step
        path = self.folder / f"checkpoint-{self.rank}"
        if stuck:  # storage that does not take any more
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with path.open("wb") as file:
            torch.save({"weights": torch.ones(65536)}, file)
        self.board.done[self.rank] += 1

    def run(self) -> None:
        """The program with its helper thread, until somebody ends it."""
        stacks = (self.folder / f"stack-{self.rank}").open("w")
        faulthandler.register(signal.SIGUSR1, stacks, all_threads=False)
        recorder = DumpOnRequest(self.folder, RUN, self.rank)
        Heartbeat(recorder, self._beat, period=BEAT_SECONDS).start()
        try:
            self.join()
            self.train()
        except RuntimeError as error:  # what gloo raises
            (self.folder / f"raised-{self.rank}").write_text(str(error))
            threading.Event().wait()

    def _beat(self) -> None:
        self.board.beats[self.rank] = monotonic()


@dataclass(slots=True)
class Found:
    """What a node tells of a case; `stood` False = it went on, and is no case.

    Attributes:
        folder: With dumps and evidence.json, as `lockstep dump` writes them.
        raised: Ranks whose collective raised an error.
    """

    folder: Path
    stood: bool
    raised: list[int] = field(default_factory=list)
    exited: dict[int, int] = field(default_factory=dict)


def run(plan: Plan, folder: Path) -> Found:
    """Start the ranks, wait until they stand (or, of a healthy run, any moment), collect."""
    board = _Board(plan.layout.world)
    dice = random.Random(plan.seed)
    pids = [_forked(plan, rank, board, folder) for rank in range(plan.layout.world)]
    exited: dict[int, int] = {}
    try:
        stood = _watched(plan, board, pids, exited, dice)
        dumps = _collected(board, pids, exited, folder)
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for rank, pid in enumerate(pids):
            if rank not in exited:
                os.waitpid(pid, 0)
    raised = [rank for rank in range(board.world) if (folder / f"raised-{rank}").exists()]
    return Found(dumps, stood, raised, exited)


def _forked(plan: Plan, rank: int, board: _Board, folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        log = os.open(folder / f"log-{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        torch.set_num_threads(1)
        _Rank(plan, rank, board, folder).run()
    except BaseException:  # noqa: BLE001 - its log shows it
        traceback.print_exc()
    finally:
        os._exit(1)


def _watched(
    plan: Plan, board: _Board, pids: list[int], exited: dict[int, int], dice: random.Random
) -> bool:
    """Whether it stands (True) at last, or may be looked at as it is well."""
    until = monotonic() + PATIENCE
    done, since = list(board.done), monotonic()
    from_outside = plan.outside and plan.fault in ("sigstop", "dead")
    still = max(STILL_SECONDS, HEARTBEAT_SECONDS if _is_locked(plan) else 0.0)
    at: float | None = None
    while monotonic() < until:
        _reap(pids, exited)
        steps = board.steps[plan.rank]
        if (from_outside or not plan.fault) and steps >= plan.step:
            at = at or monotonic() + dice.uniform(0, 0.3)
            if monotonic() >= at:
                if not plan.fault:
                    return True
                stop = signal.SIGSTOP if plan.fault == "sigstop" else signal.SIGKILL
                os.kill(pids[plan.rank], stop)
                from_outside = False
        now = list(board.done)
        if now != done:
            done, since = now, monotonic()
        elif min(board.steps) > 0 and monotonic() - since >= still:
            return True
        sleep(0.02)
    return False


def _is_locked(plan: Plan) -> bool:
    return plan.fault == "gil" or (plan.fault == "pipeline" and plan.outside)


def _reap(pids: list[int], exited: dict[int, int]) -> None:
    for rank, pid in enumerate(pids):
        if rank not in exited:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                exited[rank] = os.waitstatus_to_exitcode(status)


def _collected(
    board: _Board, pids: list[int], exited: dict[int, int], folder: Path
) -> Path:  # fmt: skip
    """Dumps on request and evidence beside them."""
    facts = []
    states = {rank: _state(pid) for rank, pid in enumerate(pids) if rank not in exited}
    (folder / request_name(RUN)).touch()
    for rank, state in states.items():
        if state not in "TtZX":
            os.kill(pids[rank], signal.SIGUSR1)
    until = monotonic() + ANSWER_SECONDS
    paths = {rank: folder / dump_name(RUN, rank) for rank in states}
    while monotonic() < until and not all(
        path.exists() for rank, path in paths.items() if states[rank] not in "TtZX"
    ):
        sleep(0.02)
    dumps = folder / "dumps"
    dumps.mkdir()
    written = {}
    for rank, path in paths.items():
        if path.exists():
            written[str(rank)] = path.stat().st_mtime
            shutil.copy2(path, dumps / f"dump_{rank}")
    for rank in range(board.world):
        if rank in exited:
            facts.append({"rank": rank, "kind": "exited", "value": str(exited[rank])})
            continue
        age = monotonic() - board.beats[rank]
        facts.append({"rank": rank, "kind": "process-state", "value": states[rank]})
        facts.append({"rank": rank, "kind": "heartbeat-age", "value": f"{age:.1f}"})
        stack = (folder / f"stack-{rank}").read_text()
        if stack:
            facts.append({"rank": rank, "kind": "stack", "value": stack})
    tree = {"schema_version": 1, "written": written, "facts": facts}
    (dumps / EVIDENCE_FILE).write_text(json.dumps(tree))
    return dumps


def _state(pid: int) -> str:
    """The letter of proc_pid_stat(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
