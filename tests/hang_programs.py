"""Programs that issue collectives over groups, run on a clock of their own, with one thing wrong.

A small model of torch on NCCL: each host enqueues operations and goes on until it must wait for its
device; each device runs what its host enqueued, in order; an operation ends when it is at the head
of every member's device. Dumps are what torch's flight recorder would write of it at any moment:
fields of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, names of groups as new_group counts
them, numbers of groups as each process counts them.
"""

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.analyzer.hangs.dumps import Fact, FactKind
from lockstep.analyzer.hangs.flight_recorder import parse
from lockstep.analyzer.hangs.jobs import NamedDump, jobs
from lockstep.analyzer.hangs.verdict import HangVerdict, judge

HOST_SECONDS = 2e-4
BEGIN = 1_758_000_000.0
"""Unix time of second 0."""
FAULTS = (
    "host-stopped", "device-stopped", "device-unstarted", "mismatched-operation",
    "mismatched-shape", "mismatched-dtype", "communicator-aborted", "peer-died", "left", "silent",
    "data-loader", "checkpoint-storage", "skipped",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """Ranks as (pp, dp, tp); experts are spread over `ep` neighbouring ranks of a stage."""

    dp: int
    tp: int
    pp: int
    ep: int = 1

    @property
    def world(self) -> int:
        return self.dp * self.tp * self.pp

    def groups(self) -> dict[str, list[tuple[int, ...]]]:
        """By kind, in the order in which they are made."""
        ranks = range(self.world)
        stage = self.dp * self.tp

        def by(key: Any) -> list[tuple[int, ...]]:
            found: dict[Any, list[int]] = defaultdict(list)
            for rank in ranks:
                found[key(rank)].append(rank)
            return [tuple(some) for some in found.values()]

        return {
            "default_pg": [tuple(ranks)],
            "DATA_PARALLEL_GROUP": by(lambda rank: (rank // stage, rank % self.tp)),
            "TENSOR_MODEL_PARALLEL_GROUP": by(lambda rank: rank // self.tp),
            "PIPELINE_MODEL_PARALLEL_GROUP": by(lambda rank: rank % stage),
            "EXPERT_MODEL_PARALLEL_GROUP": by(
                lambda rank: (rank // stage, rank % stage // self.ep)
            ),
        }


@dataclass(slots=True)
class Call:
    """One instruction of a host: an operation, device work, or what holds the host itself."""

    what: str
    group: int = -1
    op: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = "BFloat16"
    peer: int = -1
    seconds: float = 0.0


@dataclass(slots=True)
class Entry:
    """One record of the ring, with the times by which any moment can be told."""

    call: Call
    record: int
    sequence: int
    collectives: int
    created: float
    key: tuple[Any, ...]
    started: float = float("inf")
    completed: float = float("inf")
    aborted: float = float("inf")


@dataclass(slots=True)
class Program:
    """What the ranks run.

    Attributes:
        groups: (name, kind, ranks) in the order of their making.
        calls: By rank.
    """

    layout: Layout
    groups: list[tuple[str, str, tuple[int, ...]]]
    calls: list[list[Call]]

    def of(self, rank: int, kind: str) -> int:
        """The rank's group of this kind."""
        return next(
            index
            for index, (_, name, ranks) in enumerate(self.groups)
            if name == kind and rank in ranks
        )


def program(layout: Layout, steps: int, dice: random.Random, checkpoint: float = 5.0) -> Program:
    """Training: forward and backward of microbatches through the stages, then gradients."""
    groups = []
    for kind, instances in layout.groups().items():
        for ranks in instances:
            groups.append((str(len(groups)), kind, ranks))
    made = Program(layout, groups, [[] for _ in range(layout.world)])
    hidden = (dice.choice((1024, 2048)), 1, dice.choice((512, 5120)))
    microbatches, layers = dice.randint(1, 3), dice.randint(1, 2)
    checkpoints = {step for step in range(steps) if dice.random() < 0.2}
    mine = {
        (rank, kind): made.of(rank, kind)
        for rank in range(layout.world)
        for kind in layout.groups()
    }
    for rank in range(layout.world):
        stage = rank // (layout.dp * layout.tp)
        dp, tp, pp, ep = (
            mine[rank, f"{kind}_GROUP"]
            for kind in (
                "DATA_PARALLEL", "TENSOR_MODEL_PARALLEL", "PIPELINE_MODEL_PARALLEL",
                "EXPERT_MODEL_PARALLEL",
            )
        )  # fmt: skip
        calls = made.calls[rank]
        for step in range(steps):
            calls.append(Call("pause", seconds=0.005))
            if layout.tp > 1:
                calls.append(Call("coll", tp, "broadcast", (1, 4096), "Long"))
            for forward in (True, False):
                before, after = (stage - 1, stage + 1) if forward else (stage + 1, stage - 1)
                for _ in range(microbatches):
                    if 0 <= before < layout.pp:
                        calls.append(Call("recv", pp, "recv", hidden, peer=before))
                    for _ in range(layers):
                        calls += _layer(layout, tp, ep, hidden, dice)
                    if 0 <= after < layout.pp:
                        calls.append(Call("send", pp, "send", hidden, peer=after))
            if layout.dp > 1:
                calls.append(Call("coll", dp, "all_reduce", (1_000_000,), "Float"))
            calls.append(Call("coll", 0, "all_reduce", (1,), "Float"))
            calls.append(Call("sync"))
            if step in checkpoints:
                calls.append(Call("pause", seconds=checkpoint if rank == 0 else 0.0))
                calls.append(Call("coll", 0, "all_reduce", (1,), "Int"))
                calls.append(Call("sync"))
    return made


def _layer(
    layout: Layout, tp: int, ep: int, hidden: tuple[int, ...], dice: random.Random
) -> list[Call]:
    calls = [Call("compute", seconds=0.01)]
    if layout.tp > 1:
        calls.append(Call("coll", tp, "_all_gather_base", hidden))
    if layout.ep > 1:
        calls.append(Call("coll", ep, "all_to_all", (dice.randint(900, 1100), 64)))
        calls.append(Call("sync"))
    if layout.tp > 1:
        calls.append(Call("coll", tp, "_reduce_scatter_base", hidden))
    return calls


@dataclass(slots=True)
class Wrong:
    """What goes wrong: on a rank, at a second or at one of its calls."""

    fault: str
    rank: int
    at: float = float("inf")


@dataclass
class World:
    """The run as it went; `entries` by rank, in order."""

    program: Program
    wrong: Wrong | None = None
    entries: list[list[Entry]] = field(default_factory=list)
    end: float = 0.0

    def run(self, until: float, dice: random.Random) -> None:
        """Until nothing happens any more, or this second."""
        made, wrong = self.program, self.wrong
        world = made.layout.world
        self.entries = [[] for _ in range(world)]
        members = {index: ranks for index, (_, _, ranks) in enumerate(made.groups)}
        place = [0] * world
        queues: list[deque[Call | Entry]] = [deque() for _ in range(world)]
        busy = [False] * world
        waits = [False] * world
        counts: dict[tuple[Any, ...], int] = defaultdict(int)
        present: dict[tuple[Any, ...], dict[int, Entry]] = defaultdict(dict)
        records = [dice.randint(0, 100_000) for _ in range(world)]
        ticks = itertools.count()
        events: list[tuple[float, int, str, int, Any]] = []
        gave_up = False

        def at(time: float, what: str, rank: int, thing: Any = None) -> None:
            heapq.heappush(events, (time, next(ticks), what, rank, thing))

        def stopped(rank: int, part: str, now: float) -> bool:
            if wrong is None or rank != wrong.rank or now < wrong.at:
                return False
            if wrong.fault == "communicator-aborted":  # both, once there is something to give up
                return gave_up
            return part == ("device" if wrong.fault.startswith("device") else "host")

        def device(rank: int, now: float) -> None:
            """Begin what is next on the device."""
            nonlocal gave_up
            runs = wrong is not None and wrong.fault == "device-stopped"
            stands = stopped(rank, "device", now)
            if busy[rank] or (stands and not runs):
                return
            if not queues[rank]:
                if waits[rank] and not stands:
                    waits[rank] = False
                    at(now, "host", rank)
                return
            head = queues[rank].popleft()
            busy[rank] = True
            if isinstance(head, Call):
                at(now + head.seconds * dice.uniform(0.9, 1.2), "done", rank)
                return
            head.started = now
            gives_up = wrong is not None and wrong.fault == "communicator-aborted"
            if gives_up and rank == wrong.rank and now >= wrong.at:  # type: ignore[union-attr]
                head.aborted, gave_up = now + 1.0, True
            there = present[head.key]
            there[rank] = head
            both = head.call.what in ("send", "recv")
            needed = 2 if both else len(members[head.call.group])
            calls = {
                (each.call.op if not both else "", each.call.dtype,
                 () if each.call.op == "all_to_all" else each.call.shape)
                for each in there.values()
            }  # fmt: skip
            aborted = any(each.aborted < float("inf") for each in there.values())
            if len(there) == needed and len(calls) == 1 and not aborted:
                end = now + dice.uniform(0.001, 0.01)
                for each in there:
                    at(end + dice.uniform(0, 1e-4), "done", each, there[each])

        for rank in range(world):
            at(dice.uniform(0, 0.01), "host", rank)
        while events:
            now, _, what, rank, thing = heapq.heappop(events)
            if now > until:
                break
            self.end = now
            if what == "done":
                busy[rank] = False
                if thing is not None and not stopped(rank, "device", now):
                    thing.completed = now
                device(rank, now)
                continue
            if stopped(rank, "host", now):
                continue
            if place[rank] == len(made.calls[rank]):
                continue
            call = made.calls[rank][place[rank]]
            place[rank] += 1
            if call.what == "sync":
                # What a stopped device ran does not come back to its host either.
                if busy[rank] or queues[rank] or stopped(rank, "device", now):
                    waits[rank] = True
                else:
                    at(now, "host", rank)
                continue
            if call.what == "pause":
                at(now + call.seconds * dice.uniform(0.8, 1.2), "host", rank)
                continue
            if call.what == "compute":
                queues[rank].append(call)
            else:
                self._record(call, rank, now, counts, records, queues[rank])
            at(now + HOST_SECONDS * dice.uniform(0.5, 2), "host", rank)
            device(rank, now)

    def _record(
        self,
        call: Call,
        rank: int,
        now: float,
        counts: dict[tuple[Any, ...], int],
        records: list[int],
        queue: "deque[Call | Entry]",
    ) -> None:
        if call.what == "coll":
            counts[rank, call.group] += 1
            key: tuple[Any, ...] = (call.group, counts[rank, call.group])
            sequence = collectives = key[1]
        else:
            counts[rank, call.group, "p2p"] += 1
            stage = self.program.groups[call.group][2].index(rank)
            way = (stage, call.peer) if call.what == "send" else (call.peer, stage)
            counts[rank, call.group, way] += 1
            key = (call.group, way, counts[rank, call.group, way])
            sequence, collectives = counts[rank, call.group, "p2p"], counts[rank, call.group]
        entry = Entry(call, records[rank], sequence, collectives, now, key)
        records[rank] += 1
        self.entries[rank].append(entry)
        queue.append(entry)


def dump(
    world: World,
    rank: int,
    moment: float,
    *,
    active_only: bool = False,
    timing: bool = False,
    ring: int = 400,
    timeout: float = 600.0,
) -> dict[str, Any]:
    """What the rank's flight recorder holds at that second."""
    made = world.program
    mine = [index for index, (_, _, ranks) in enumerate(made.groups) if rank in ranks]
    handles = {group: number for number, group in enumerate(mine)}
    seen = [entry for entry in world.entries[rank] if entry.created <= moment]
    used = sorted({entry.call.group for entry in seen})
    status = {}
    for group in used:
        own = [entry for entry in seen if entry.call.group == group]
        done = [entry for entry in own if entry.completed <= moment]
        begun = [entry for entry in own if entry.started <= moment]
        status[str(handles[group])] = {
            "last_enqueued_collective": own[-1].sequence,
            "last_started_collective": begun[-1].sequence if begun and timing else -1,
            "last_completed_collective": done[-1].sequence if done else -1,
        }
    return {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": {
            made.groups[group][0]: {
                "name": made.groups[group][0],
                "desc": made.groups[group][1],
                "ranks": str(list(made.groups[group][2])),
            }
            for group in used
        },
        "pg_status": status,
        "entries": [
            _entry(made, rank, entry, handles, moment, timing, timeout)
            for entry in seen[-ring:]
            if not (active_only and entry.completed <= moment)
        ],
    }


def _entry(
    made: Program,
    rank: int,
    entry: Entry,
    handles: Mapping[int, int],
    moment: float,
    timing: bool,
    timeout: float,
) -> dict[str, Any]:
    call, (name, kind, ranks) = entry.call, made.groups[entry.call.group]
    two = call.what != "coll"
    words = f"nccl:{call.op}"
    if two:
        words += f" {ranks.index(rank)}{'->' if call.what == 'send' else '<-'}{call.peer}"
    done = entry.completed <= moment
    begun = done or (timing and entry.started <= moment)
    return {
        "record_id": entry.record,
        "pg_id": handles[call.group],
        "process_group": (name, kind),
        "collective_seq_id": entry.collectives,
        "p2p_seq_id": entry.sequence if two else 0,
        "op_id": entry.sequence,
        "profiling_name": words,
        "time_created_ns": int((BEGIN + entry.created) * 1e9),
        "input_sizes": [list(call.shape)],
        "input_dtypes": [call.dtype],
        "output_sizes": [list(call.shape)],
        "output_dtypes": [call.dtype],
        "state": "completed" if done else "started" if begun else "scheduled",
        "time_discovered_started_ns": (
            int((BEGIN + entry.started) * 1e9) if begun and timing else None
        ),
        "time_discovered_completed_ns": int((BEGIN + entry.completed) * 1e9) if done else None,
        "retired": done or entry.aborted <= moment,
        "timeout_ms": int(timeout * 1e3),
        "is_p2p": two,
    }


@dataclass(slots=True)
class Case:
    """Dumps by rank, when each was written, facts, and the truth; no truth = healthy."""

    layout: Layout
    trees: dict[int, dict[str, Any]]
    written: dict[int, float]
    facts: list[tuple[int, str, str]]
    rank: int | None
    kind: str | None
    fault: str


LAYOUTS = (
    Layout(2, 1, 1), Layout(4, 1, 1), Layout(8, 1, 1), Layout(4, 2, 1), Layout(2, 2, 2),
    Layout(2, 4, 2), Layout(2, 2, 4), Layout(4, 2, 2, 4), Layout(4, 2, 4, 4), Layout(1, 4, 4),
    Layout(8, 2, 2, 8),
)  # fmt: skip


def hang(seed: int, fault: str, layout: Layout | None = None) -> Case:
    """A run in which one rank does what the fault says."""
    dice = random.Random(seed)
    # Of two that differ nobody can tell which is wrong.
    fits = [each for each in LAYOUTS if each.world > 2 or not fault.startswith(("mis", "sk"))]
    layout = layout or dice.choice(fits)
    made = program(layout, 6, dice)
    whole = World(made)
    whole.run(float("inf"), random.Random(seed + 1))
    rank = dice.randrange(layout.world)
    wrong = Wrong(fault, rank, dice.uniform(0.3, 0.85) * whole.end)
    if fault.startswith("mismatched") or fault == "skipped":
        wrong.at = float("inf")
        _change(made, rank, fault, dice)
    world = World(made, wrong)
    world.run(float("inf"), random.Random(seed + 1))
    while all(one.completed < float("inf") for some in world.entries for one in some):
        wrong.at *= 0.8  # the rank had done all by then
        world.run(float("inf"), random.Random(seed + 1))
    return _told(world, wrong, fault, dice)


def _change(made: Program, rank: int, fault: str, dice: random.Random) -> None:
    """Of a group in which two others at least agree, so that it can be told who differs."""
    calls = made.calls[rank]
    some = [
        index
        for index, call in enumerate(calls)
        if call.what == "coll" and len(made.groups[call.group][2]) > 2
        and index > len(calls) // 4 and (fault != "mismatched-shape" or call.op != "all_to_all")
    ] or [index for index, call in enumerate(calls) if call.what == "coll"]  # fmt: skip
    index = dice.choice(some)
    call = calls[index]
    if fault == "mismatched-operation":
        calls[index] = Call("coll", call.group, "all_gather", call.shape, call.dtype)
    elif fault == "mismatched-shape":
        calls[index] = Call("coll", call.group, call.op, (7, *call.shape), call.dtype)
    elif fault == "mismatched-dtype":
        calls[index] = Call("coll", call.group, call.op, call.shape, "Half")
    elif fault == "skipped":
        del calls[index]


def _told(world: World, wrong: Wrong, fault: str, dice: random.Random) -> Case:
    """The dumps of a run that stands, and what other sensors tell."""
    layout, rank = world.program.layout, wrong.rank
    moment = world.end + dice.uniform(60, 600)
    style = {
        "active_only": dice.random() < 0.5,
        "timing": fault == "device-unstarted" or dice.random() < 0.3,
    }
    written = {each: moment + dice.uniform(0, 3) for each in range(layout.world)}
    trees = {each: dump(world, each, written[each], **style) for each in range(layout.world)}
    facts: list[tuple[int, str, str]] = []
    kind = fault
    match fault:
        case "peer-died":
            facts.append((rank, "exited", dice.choice(("-9", "1", "-6"))))
        case "left":
            facts.append((rank, "exited", "0"))
        case "data-loader":
            facts.append((rank, "stack", "_next_data (torch/utils/data/dataloader.py:789)"))
        case "checkpoint-storage":
            facts.append((rank, "process-state", "D"))
            facts.append((rank, "stack", "save (torch/serialization.py:944)\nwrite"))
        case "device-unstarted":
            kind = "device-stopped"
        case "skipped":
            kind = "mismatched"
        case _:
            pass
    if fault in ("peer-died", "left", "silent"):
        del trees[rank]
    return Case(layout, trees, {r: BEGIN + t for r, t in written.items()}, facts, rank, kind, fault)


def healthy(seed: int) -> Case:
    """A run that is well, looked at at any moment; no two dumps of one moment."""
    dice = random.Random(seed)
    layout = dice.choice(LAYOUTS)
    made = program(layout, 6, dice, checkpoint=dice.choice((1.0, 5.0, 15.0)))
    world = World(made)
    world.run(float("inf"), random.Random(seed + 1))
    moment = dice.uniform(0.02, 0.98) * world.end
    skew = dice.choice((0.0, 0.01, 0.3, 3.0))
    written = {each: moment + dice.uniform(0, skew) for each in range(layout.world)}
    style = {"active_only": dice.random() < 0.5, "timing": dice.random() < 0.5}
    trees = {each: dump(world, each, written[each], **style) for each in range(layout.world)}
    return Case(
        layout, trees, {r: BEGIN + t for r, t in written.items()}, [], None, None, "healthy"
    )


def judged(case: Case, limit: float | None = None) -> HangVerdict:
    """The verdict on a constructed case."""
    traces = [
        NamedDump("dump", parse(tree, rank, case.written[rank]))
        for rank, tree in case.trees.items()
    ]
    facts = [Fact(rank, FactKind(kind), value) for rank, kind, value in case.facts]
    return judge(jobs(traces, {".": facts})[0][1], limit)


def kind_is_right(case: Case, verdict: HangVerdict) -> bool:
    """A call that was left out shows as whatever differs first."""
    told = None if verdict.kind is None else verdict.kind.value
    if case.fault == "skipped":
        return told is not None and told.startswith("mismatched")
    return told == case.kind
