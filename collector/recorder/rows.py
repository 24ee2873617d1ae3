"""From a collector's answers to rows of the archive's tables; pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import OPS_JSON_OPS, OPS_JSON_STEPS, SCHEMA_VERSION
from lockstep.collector.contract.metrics import GPU_INFO, SAMPLES, label_text
from lockstep.collector.contract.ring import FLAG_NAMES, OpRecord, StepRecord
from lockstep.collector.contract.words import PHASES, STEP_TAGS
from lockstep.collector.recorder.parts import Row

UP = "up"
_IDENTITY = ("rank", "world", "local_rank", "attempt", "pid", "dp", "pp", "tp")
_COMPUTE = frozenset({"forward-compute", "backward-compute"})
_TRANSFERS = frozenset({"forward-send", "forward-recv", "backward-send", "backward-recv"})
_PLACE = re.compile(r"c(\d{1,6})\.m(\d{1,6})", re.ASCII)
"""The tag of compute operations and transfers: chunk in the stage and micro-batch."""


class AnswerError(ValueError):
    """A collector's answer is not what contract/archive.py says."""


@dataclass(frozen=True, slots=True)
class RankAnswer:
    """One rank's part of an answer to `/ops`; record times on the rank's monotonic clock.

    Attributes:
        wall_offset_ns: To add to a record's time for unix time on the run's aligned clock.
    """

    node: str
    gpu: int | None
    uuid: str | None
    rank: int
    world: int
    local_rank: int
    attempt: int
    pid: int
    dp: int
    pp: int
    tp: int
    wall_offset_ns: int
    first_step_held: int | None
    truncated: bool
    steps: tuple[StepRecord, ...]
    ops: tuple[OpRecord, ...]


def rank_answers(body: bytes, run: str) -> list[RankAnswer]:
    """The ranks in an answer to `/ops`.

    Raises:
        AnswerError: It is not JSON of this schema and run.
    """
    try:
        data = bounded_json.loads(body)
        if data["schema_version"] != SCHEMA_VERSION or data["run"] != run:
            raise AnswerError(f"schema {data['schema_version']} of run {data['run']!r}")
        return [_rank_answer(rank) for rank in data["ranks"]]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(f"the answer to /ops is not as agreed: {error!r}") from error


def sample_rows(
    page: str,
    time: float,
    node: str,
    run: str,
    numbers: MutableMapping[tuple[str, str], int] | None = None,
) -> list[Row]:
    """SAMPLES rows of a page; metrics outside the contract and other runs are left out.

    Args:
        numbers: Gets the number of each GPU of the page, by node and uuid: the rows
            have no uuid.

    Raises:
        AnswerError: The page is not in the text format.
    """
    from prometheus_client.parser import text_string_to_metric_families

    rows: list[Row] = []
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                labels = sample.labels
                if sample.name in SAMPLES and labels.get("run", run) == run:
                    gpu, rank = _index(labels, "gpu"), _index(labels, "rank")
                    if numbers is not None and sample.name == GPU_INFO.name and gpu is not None:
                        numbers[node, labels.get("uuid", "")] = gpu
                    rows.append(
                        (time, node, gpu, rank, sample.name, label_text(labels), sample.value)
                    )
    except (ValueError, KeyError, IndexError) as error:
        raise AnswerError(f"the page is not in the text format: {error!r}") from error
    return rows


def up_row(time: float, node: str, *, up: bool) -> Row:
    """The SAMPLES row that says whether a scrape succeeded."""
    return time, node, None, None, UP, "", float(up)


def step_row(answer: RankAnswer, step: StepRecord) -> Row:
    """A STEPS row."""
    tags = ",".join(tag for bit, tag in enumerate(STEP_TAGS) if step.tags >> bit & 1)
    return (
        step.step, answer.rank, answer.attempt, (step.start_ns + answer.wall_offset_ns) / 1e9,
        step.wall_ns / 1e9, step.cpu_ns / 1e9,
        None if step.own_ns is None else step.own_ns / 1e9,
        *(nanoseconds / 1e9 for nanoseconds in step.phase_ns),
        tags, step.loss, step.samples, step.tokens, step.flops,
        None if step.wait_ns is None else step.wait_ns / 1e9,
    )  # fmt: skip


def op_rows(
    answer: RankAnswer, ops: Sequence[OpRecord], step_starts: Mapping[int, int], stages: int
) -> list[Row]:
    """OPS rows of whole steps of one rank.

    Args:
        answer: The rank.
        ops: All its operations of the steps in question; numbering counts from their start.
        step_starts: Earliest start of each step on any rank, unix nanoseconds.
        stages: Pipeline ranks of the run.
    """
    numbers: Counter[tuple[str, int]] = Counter()
    rows: list[Row] = []
    for op in sorted(ops, key=lambda one: one.enqueue_ns):
        number = numbers[op.op, op.step]
        numbers[op.op, op.step] += 1
        chunk, micro_batch = _place(op, number)
        start_ns = op.enqueue_ns + answer.wall_offset_ns
        flags = ",".join(name for bit, name in FLAG_NAMES if op.flags & bit)
        rows.append((
            answer.dp, answer.pp, answer.rank, op.step, op.op,
            (start_ns - step_starts[op.step]) / 1e9, (op.complete_ns - op.enqueue_ns) / 1e9,
            number, chunk, -1 if chunk < 0 else chunk * stages + answer.pp, micro_batch,
            answer.tp, op.group, op.sequence, op.bytes,
            start_ns, op.complete_ns + answer.wall_offset_ns, flags, op.tag,
        ))  # fmt: skip
    return rows


def _place(op: OpRecord, number: int) -> tuple[int, int]:
    """(chunk in the stage, micro-batch), -1 = none; without a tag the only chunk, in order."""
    compute = op.op in _COMPUTE
    if not compute and op.op not in _TRANSFERS:
        return -1, -1
    match = _PLACE.fullmatch(op.tag)
    if match is None:
        return (0, number) if compute else (-1, -1)
    return int(match[1]), int(match[2]) if compute else -1


def op_start_ns(answer: RankAnswer, op: OpRecord) -> int:
    """Arrival at an operation, unix nanoseconds on the run's aligned clock."""
    return op.enqueue_ns + answer.wall_offset_ns


def _rank_answer(data: Any) -> RankAnswer:
    numbers = {name: _integer(data[name]) for name in _IDENTITY}
    held, gpu = data["first_step_held"], data["gpu"]
    return RankAnswer(
        node=_string(data["node"]),
        gpu=None if gpu is None else _integer(gpu),
        uuid=None if data["uuid"] is None else _string(data["uuid"]),
        wall_offset_ns=_integer(data["wall_minus_monotonic_ns"])
        + _integer(data["clock_offset_ns"]),
        first_step_held=None if held is None else _integer(held),
        truncated=bool(data["truncated"]),
        steps=tuple(
            _step(*values) for values in _transposed(_waits(data["steps"]), OPS_JSON_STEPS)
        ),
        ops=tuple(_op(*values) for values in _transposed(data["ops"], OPS_JSON_OPS)),
        **numbers,
    )


def _waits(steps: Mapping[str, Any]) -> Mapping[str, Any]:
    """Steps with `wait_ns`, which collectors of earlier releases leave out."""
    if "wait_ns" in steps:
        return steps
    waits = [
        None if own is None else _integer(wall) - _integer(own)
        for wall, own in zip(steps["wall_ns"], steps["own_ns"], strict=True)
    ]
    return {**steps, "wait_ns": waits}


def _step(*values: Any) -> StepRecord:
    step, start, wall, cpu, own, phases, tags, samples, tokens, flops, loss, wait = values
    phase_ns = tuple(_integer(phase) for phase in phases)
    if len(phase_ns) != len(PHASES):
        raise AnswerError(f"{len(phase_ns)} phases; there are {len(PHASES)}")
    return StepRecord(
        _integer(step), _integer(start), _integer(wall), _integer(cpu),
        None if own is None else _integer(own), phase_ns,
        _integer(tags), _integer(samples), _integer(tokens), _real(flops), _real(loss),
        None if wait is None else _integer(wait),
    )  # fmt: skip


def _op(*values: Any) -> OpRecord:
    op, group, flags, step, sequence, tag, size, enqueue, complete = values
    return OpRecord(
        _string(op), _string(group), _integer(flags), _integer(step), _integer(sequence),
        _string(tag), *map(_integer, (size, enqueue, complete)),
    )  # fmt: skip


def _transposed(columns: Mapping[str, Any], names: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    return zip(*(columns[name] for name in names), strict=True)


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise AnswerError(f"{value!r} is not a 64-bit integer")
    return value


def _real(value: Any) -> float:
    if value is None:
        return float("nan")
    if type(value) not in (int, float):
        raise AnswerError(f"{value!r} is not a number")
    return float(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise AnswerError(f"{value!r} is not a string")
    return value


def _index(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if text else None
