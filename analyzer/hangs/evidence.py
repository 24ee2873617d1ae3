"""What process states, stacks, GPUs, kernel lines and RAS say of a rank, beside the dumps."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from lockstep.analyzer.hangs.dumps import Fact, FactKind
from lockstep.collector.contract.xid import judged
from lockstep.collector.contract.xid_catalogue.shape import Fault, Severity

OF_WAIT = 0.5
"""Of the wait: a heartbeat that is younger came while others waited already."""
OLD_SECONDS = 30.0
"""Where it is not known for how long others wait."""
TIMES_OTHERS = 2.0
"""Heartbeats of all ranks stop alike where they are sent once a step."""


class Kind(StrEnum):
    """Why a run stands; the words of docs/method/hang.md."""

    HOST_STOPPED = "host-stopped"
    DEVICE_STOPPED = "device-stopped"
    MISMATCHED_OPERATION = "mismatched-operation"
    MISMATCHED_SHAPE = "mismatched-shape"
    MISMATCHED_DTYPE = "mismatched-dtype"
    MISMATCHED_ORDER = "mismatched-order"
    COMMUNICATOR_ABORTED = "communicator-aborted"
    COMMUNICATOR_STUCK = "communicator-stuck"
    PEER_DIED = "peer-died"
    LEFT = "left"
    SILENT = "silent"
    DATA_LOADER = "data-loader"
    CHECKPOINT_STORAGE = "checkpoint-storage"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a fact whose value matches says; `kind` None = that its rank is alive and well.

    Attributes:
        value: `xid` in it is a number that counts if the catalogue calls it fatal and no fault of
            the application; `age` one that is compared with the wait and the other ranks' ages.
        says: In words, about the rank; {value} is the fact's.
        strength: Of several the strongest names the kind.
        waits: It says that the rank waits for others itself.
    """

    fact: FactKind
    value: re.Pattern[str]
    kind: Kind | None
    says: str
    strength: int
    waits: bool = False


def _row(
    fact: FactKind, value: str, kind: Kind | None, says: str, strength: int, *, waits: bool = False
) -> Meaning:
    pattern = re.compile(value, re.ASCII | re.IGNORECASE | re.DOTALL)
    return Meaning(fact, pattern, kind, says, strength, waits)


_COMMUNICATES = r".*torch/distributed/distributed_c10d\.py.*"
"""Whatever called it: a checkpoint's barrier waits for others, and for no storage."""


_LOADING = (
    r"(_next_data|next_(data|batch|sample|example)|_?(get|fetch|read|load|prefetch|build)_(next_)?"
    r"(batch|sample|example|shard|data)(es|s)?)"
)
_ITERATING = (
    r"(__next__|__iter__|__getitems?__|_?next\w*|_?try_get\w*|_?get_(item|next)\w*|_?fetch\w*"
    r"|_?read\w*|_?prefetch\w*|_?iter\w*|collate\w*)"
)
_DATA_FILE = (
    r"([^\s()\"]*/)?((data|datasets?)/\w+|\w*(?<!meta)(?<!para)data_?(load|iter|pipe|feed|stream|read"
    r"|source|set)\w*|\w*(iterator|sampler|collat|prefetch)\w*)\.py"
)
_LOADERS = (
    r"(torch/utils/data/|data/_utils|nvidia/dali/|webdataset/|wids/|streaming/base/|energon/|/grain/"
    r"|ffcv/|petastorm/|litdata/|lhotse/|tensorflow_datasets/|tensorflow/python/data/)"
)
"""torch, NVIDIA DALI, WebDataset, Mosaic Streaming, Megatron Energon, Grain, FFCV, Petastorm,
LitData, Lhotse, tf.data."""
_LOADER = (
    # As py-spy writes a frame, `function (file:line)`, and as faulthandler does.
    rf"(.*[^\w.])?({_LOADING} \(|{_ITERATING} \({_DATA_FILE}\b"
    rf"|File \"[^\"]*\", line \d+,? in {_LOADING}\b"
    rf"|File \"{_DATA_FILE}\", line \d+,? in {_ITERATING}\b).*|.*{_LOADERS}.*"
)
"""A function that loads data, one that iterates in a file for data, or a package of a loader."""
_CHECKPOINT = (
    r".*((save|load|write|read|restore|store|finalize)\w*_checkpoint"
    r"|(?<!_)checkpoint(er\b|_(engine|io|saver|loader|writer|reader|manager|storage|save|load))"
    r"|(?<!activation_checkpointing/)checkpointing\.py|distributed/checkpoint/|dist_checkpointing"
    r"|torch/serialization\.py|safetensors|save_state|filesystem_async).*"
)
"""Saving or loading one: recomputing activations is called checkpointing, too."""
_GPU_LOST = (
    r"\W*((the )?gpu )?((is|has|was) )?(lost|hung|fallen off the bus|unresponsive|not responding"
    r"|in error|(unknown )?error|(requires|needs) (a )?reset|reset required)\W*"
)
_AGE = re.compile(r"\d{1,9}(\.\d*)?", re.ASCII)
_XID = r"\b(?P<xid>\d{1,4})\b"
_GPU_KERNEL = rf".*(NVRM: Xid \([^)]{{0,80}}\): {_XID}|fallen off the bus|GPU (is|has been) lost).*"
_FILE_SYSTEMS = (
    r"(nfs[34d]?|lustre(error)?|lnet(error)?|gpfs|mmfs\w*|(lib)?ceph|rbd|beegfs\w*|weka\w*|glusterfs\w*"
    r"|cifs|smb3?|daos|juicefs)"
)
_UNAVAILABLE = (
    r"(not responding|not responded|not answer|timed? ?out|timeout|lost|evict|hung|disconnect"
    r"|unreachable|stale|refused|reset by peer|abort|fail|error|expired|reconnect)"
)
_STORAGE = (
    # Forms of the Linux kernel's fs/nfs, fs/ceph, fs/smb, block and nvme, and of Lustre's ptlrpc:
    # a line begins with the name of its file system.
    rf"(.*[\s\]])?{_FILE_SYSTEMS}:.*{_UNAVAILABLE}.*"
    r"|.*(stale file handle|I/O error|blk_update_request|\bnvme\w*.{0,80}(timeout|reset|abort)).*"
)
_STALL = r".*(blocked for more than \d+ seconds|soft lockup|rcu.*stall).*"
_IN_KERNEL = "its process is inside the kernel and cannot be interrupted (state D)"
_GAVE_UP = "NCCL's RAS reports that it has given up its communicator"

MEANINGS: tuple[Meaning, ...] = (
    # proc_pid_stat(5)
    _row(FactKind.PROCESS_STATE, "T|t", Kind.HOST_STOPPED, "its process is stopped (state T)", 5),
    _row(FactKind.PROCESS_STATE, "[ZX]|gone", Kind.PEER_DIED, "its process has ended ({value})", 3),
    _row(FactKind.PROCESS_STATE, "D", Kind.HOST_STOPPED, _IN_KERNEL, 2),
    _row(FactKind.PROCESS_STATE, "[RSI]", None, "its process is alive (state {value})", 0),
    _row(FactKind.EXITED, "0", Kind.LEFT, "its process has ended without an error", 5),
    _row(FactKind.EXITED, r"-?\d{1,9}", Kind.PEER_DIED, "its process has ended with {value}", 5),
    _row(FactKind.HEARTBEAT_AGE, r"[0-4](\.\d*)?", None, "its heartbeat is fresh", 0),
    _row(
        FactKind.HEARTBEAT_AGE, r"(?P<age>\d{1,9}(\.\d*)?)", Kind.HOST_STOPPED,
        "its heartbeat stopped {value} s ago", 1,
    ),
    _row(
        FactKind.STACK, _COMMUNICATES, None, "it stands in torch.distributed: {value}", 0,
        waits=True,
    ),
    _row(FactKind.STACK, _LOADER, Kind.DATA_LOADER, "it stands in the data loader: {value}", 4),
    _row(
        FactKind.STACK, _CHECKPOINT, Kind.CHECKPOINT_STORAGE, "it stands in a checkpoint: {value}",
        4,
    ),
    _row(FactKind.KERNEL, _STORAGE, Kind.CHECKPOINT_STORAGE, "the kernel reports: {value}", 2),
    _row(
        FactKind.KERNEL, ".*(Killed process|oom-kill|Out of memory).*", Kind.PEER_DIED,
        "the kernel ended a process: {value}", 4,
    ),
    _row(
        FactKind.KERNEL, _GPU_KERNEL,
        Kind.DEVICE_STOPPED, "the kernel reports on its GPU: {value}", 4,
    ),
    _row(FactKind.KERNEL, _STALL, Kind.HOST_STOPPED, "the kernel reports a stall: {value}", 1),
    _row(FactKind.XID, f"(xid )?{_XID}.*", Kind.DEVICE_STOPPED, "its GPU reported XID {value}", 4),
    _row(
        FactKind.GPU_STATE, _GPU_LOST, Kind.DEVICE_STOPPED,
        "its GPU is {value}", 4,
    ),
    _row(
        FactKind.RAS, "missing|dead|unresponsive", Kind.PEER_DIED,
        "NCCL's RAS reports that it is {value}", 2,
    ),
    _row(FactKind.RAS, "abort(ed)?|finalized", Kind.COMMUNICATOR_ABORTED, _GAVE_UP, 3),
)  # fmt: skip
"""Data: one row for each thing that another sensor may say."""

REFINES: dict[Kind, frozenset[Kind]] = {
    Kind.HOST_STOPPED: frozenset(
        (Kind.DATA_LOADER, Kind.CHECKPOINT_STORAGE, Kind.LEFT, Kind.PEER_DIED, Kind.DEVICE_STOPPED)
    ),
    Kind.SILENT: frozenset(
        (Kind.PEER_DIED, Kind.LEFT, Kind.HOST_STOPPED, Kind.DEVICE_STOPPED, Kind.CHECKPOINT_STORAGE,
         Kind.DATA_LOADER)
    ),
    Kind.COMMUNICATOR_STUCK: frozenset(
        (Kind.DEVICE_STOPPED, Kind.HOST_STOPPED, Kind.PEER_DIED, Kind.COMMUNICATOR_ABORTED)
    ),
    Kind.MISMATCHED_ORDER: frozenset(
        (Kind.HOST_STOPPED, Kind.PEER_DIED, Kind.DEVICE_STOPPED, Kind.DATA_LOADER,
         Kind.CHECKPOINT_STORAGE, Kind.LEFT)
    ),
}  # fmt: skip
"""What looks alike in the waits, and another sensor distinguishes."""


@dataclass(frozen=True, slots=True)
class Says:
    """A fact in words; `kind` None = the rank is alive as far as this goes, or waits itself."""

    rank: int
    kind: Kind | None
    text: str
    strength: int
    waits: bool = False


def statements(facts: Sequence[Fact]) -> list[Fact]:
    """Facts, with the frames of a stack that come one by one as one stack, innermost first."""
    joined: list[list[Fact]] = []
    before: Fact | None = None
    for fact in facts:
        frame = fact.kind is FactKind.STACK and "\n" not in fact.value
        if frame and before is not None and before.rank == fact.rank:
            joined[-1].append(fact)
        else:
            joined.append([fact])
        before = fact if frame else None
    return [
        some[0]
        if len(some) == 1
        else Fact(some[0].rank, some[0].kind, "\n".join(fact.value for fact in some))
        for some in joined
    ]


def has_rule(fact: Fact) -> bool:
    """Whether a row reads such a value, whatever it would say of this rank."""
    return any(row.fact is fact.kind and row.value.fullmatch(fact.value) for row in MEANINGS)


def meaning(fact: Fact, facts: Sequence[Fact], waited: float | None = None) -> Meaning | None:
    """The first row that reads this fact; None = it says nothing.

    Args:
        facts: Of all ranks, which a heartbeat's age is compared with.
        waited: Seconds for which others certainly wait for the rank; None = not known.
    """
    for row in MEANINGS:
        match = row.value.fullmatch(fact.value) if row.fact is fact.kind else None
        if match is not None and _counts(match.groupdict(), fact, facts, waited):
            return row
    return None


def said(facts: Sequence[Fact], rank: int, waited: float | None = None) -> list[Says]:
    """What is known of this rank, the strongest first; a value that is in no row says nothing.

    Args:
        waited: Seconds for which others certainly wait for it; None = not known.
    """
    found = []
    for fact in statements([fact for fact in facts if fact.rank == rank]):
        row = meaning(fact, facts, waited)
        if row is not None:
            text = row.says.format(value=shown(_frame(fact, row)))
            found.append(Says(rank, row.kind, text, row.strength, row.waits))
    return sorted(found, key=lambda statement: -statement.strength)


def shown(value: str) -> str:
    """The value of a fact in one line of at most 160 characters."""
    return " ".join(value.split())[:160]


def _frame(fact: Fact, row: Meaning) -> str:
    """Of a stack the first frame that the row reads; of another fact its value."""
    lines = fact.value.splitlines() if fact.kind is FactKind.STACK else []
    return next((line for line in lines if row.value.fullmatch(line)), fact.value)


def _counts(
    looked_up: Mapping[str, str | None], fact: Fact, facts: Sequence[Fact], waited: float | None
) -> bool:
    """Whether what the row would say is so: by the catalogue, the wait and the other ranks."""
    if (number := looked_up.get("xid")) is not None:
        judgement = judged(int(number), fact.value)
        return judgement.severity is Severity.FATAL and judgement.fault in (
            Fault.HARDWARE,
            Fault.SOFTWARE,
        )
    if (age := looked_up.get("age")) is not None:
        others = [
            float(each.value)
            for each in facts
            if each.kind is fact.kind and each.rank != fact.rank and _AGE.fullmatch(each.value)
        ]
        least = OLD_SECONDS if waited is None else OF_WAIT * waited
        return float(age) >= max(least, TIMES_OTHERS * median(others) if others else 0.0)
    return True


def refined(kind: Kind, statements: Sequence[Says]) -> Kind:
    """The kind that the strongest fact gives, where it may."""
    for statement in statements:
        if statement.kind is not None and statement.kind in REFINES.get(kind, frozenset()):
            return statement.kind
        if statement.kind is kind:
            return kind
    return kind


def unknown_kinds(facts: Iterable[Fact]) -> list[str]:
    """Sensors that reported nothing."""
    known = {fact.kind for fact in facts}
    return [kind.value for kind in FactKind if kind not in known]
