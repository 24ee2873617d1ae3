"""`GET /ops`: the recorded operations of one run's ranks on this node (contract/archive.py)."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from lockstep.collector.clock import Clock
from lockstep.collector.contract.archive import (
    OPS_JSON_OPS,
    OPS_JSON_STEPS,
    OPS_MAX_BYTES_PER_RANK,
    SCHEMA_VERSION,
)
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.ranks.records import Records, read_records
from lockstep.collector.sources.ranks.rings import Rings

_STEP = re.compile(r"[0-9]{1,18}", re.ASCII)


class QueryError(ValueError):
    """The query of `/ops` is wrong; the message says what would be right."""


class UnreadableError(Exception):
    """The run is here and none of its ranks' records can be read; the message says why."""


@dataclass(frozen=True, slots=True)
class OpsQuery:
    """Steps `from_step` (inclusive) to `to_step` (exclusive, None = open) of one run."""

    run: str
    from_step: int = 0
    to_step: int | None = None

    @classmethod
    def parse(cls, query: str) -> "OpsQuery":
        """From the part of the URL behind the question mark.

        Raises:
            QueryError: A parameter is missing, repeated, unknown or not a step.
        """
        try:
            fields = parse_qs(query, keep_blank_values=True, max_num_fields=8)
        except ValueError as error:
            raise QueryError(f"cannot read the query: {error}") from error
        unknown = fields.keys() - {"run", "from_step", "to_step"}
        if unknown or any(len(values) > 1 for values in fields.values()):
            raise QueryError("the query takes run, from_step and to_step, each once")
        if not fields.get("run", [""])[0]:
            raise QueryError("the query needs run=RUN")
        steps: dict[str, int] = {}
        for name in ("from_step", "to_step"):
            if name in fields:
                if not _STEP.fullmatch(fields[name][0]):
                    raise QueryError(f"{name} is not a step; it must be 0 or more")
                steps[name] = int(fields[name][0])
        return cls(fields["run"][0], **steps)


def answer(
    query: OpsQuery, rings: Rings, clock: Clock, rejected: Callable[[Rejected], None]
) -> bytes | None:
    """The JSON of the query, or None when this node has no rank of the run.

    A ring whose records cannot be read is left out, named under `unreadable`, and handed to
    `rejected`.

    Raises:
        UnreadableError: That holds for every rank of the run.
    """
    parts: list[str] = []
    unreadable: list[dict[str, Any]] = []
    for rank in sorted(rings.scan().ranks, key=lambda one: one.key):
        if rank.key[0] != query.run:
            continue
        try:
            records = read_records(rank.path, query.from_step, query.to_step, clock)
        except SourceError as error:
            rejected(Rejected(error.reason, f"{rank.path}: {error}"))
            unreadable.append({"rank": rank.key[1], "why": str(error)})
            continue
        parts.append(rank_json(records, query, OPS_MAX_BYTES_PER_RANK))
    if not parts and unreadable:
        why = "; ".join(f"rank {one['rank']}: {one['why']}" for one in unreadable)
        raise UnreadableError(f"no rank of this run can be read now: {why}")
    if not parts:
        return None
    head = json.dumps(
        {"schema_version": SCHEMA_VERSION, "run": query.run, "unreadable": unreadable}
    )
    return f'{head[:-1]}, "ranks": [{",".join(parts)}]}}'.encode()


def rank_json(records: Records, query: OpsQuery, limit: int) -> str:
    """One rank's part, at most `limit` bytes: the newest steps win, and `missing` says what went.

    `missing` are the steps asked for that were here once: overwritten, or over the limit.
    """
    steps, ops = records.steps, records.ops
    missing = _missing(query, records.first_step_held) if records.truncated else None
    text = _encode(records, steps, ops, missing)
    while len(text) > limit and (steps or ops):
        numbers = sorted({step.step for step in steps} | {op.step for op in ops})
        # Proportional, and a tenth more because steps differ; always at least one step fewer.
        keep = min(int(len(numbers) * limit / len(text) * 0.9), len(numbers) - 1)
        first = numbers[-keep] if keep > 0 else numbers[-1] + 1
        steps = tuple(step for step in steps if step.step >= first)
        ops = tuple(op for op in ops if op.step >= first)
        missing = _missing(query, first)
        text = _encode(records, steps, ops, missing)
    return text


def _missing(query: OpsQuery, first: int | None) -> dict[str, int] | None:
    """The part of the window asked for that lies before the first step given."""
    if first is None or first <= query.from_step:
        return None
    end = first if query.to_step is None else min(first, query.to_step)
    return {"from_step": query.from_step, "to_step": end} if end > query.from_step else None


def _encode(records: Records, steps: Any, ops: Any, missing: dict[str, int] | None) -> str:
    who = records.header.identity
    return json.dumps(
        {
            "rank": who.rank,
            "node": who.node,
            "world": who.world,
            "local_rank": who.local_rank,
            "attempt": who.attempt,
            "pid": who.pid,
            "dp": who.dp,
            "pp": who.pp,
            "tp": who.tp,
            "ep": who.ep,
            "cp": who.cp,
            "gpu": who.gpu,
            "uuid": who.uuid,
            "state": records.header.state,
            "start_wall_ns": who.start_wall_ns,
            "wall_minus_monotonic_ns": who.wall_minus_monotonic_ns,
            "clock_offset_ns": who.clock_offset_ns,
            "clock_error_ns": who.clock_error_ns,
            "first_step_held": records.first_step_held,
            "truncated": missing is not None,
            "missing": missing,
            "steps": {name: [_value(step, name) for step in steps] for name in OPS_JSON_STEPS},
            "ops": {name: [_value(op, name) for op in ops] for name in OPS_JSON_OPS},
        },
        separators=(",", ":"),
    )


def _value(record: Any, name: str) -> Any:
    """A field as JSON knows it: there is no NaN and no infinity."""
    value = getattr(record, name)
    return None if isinstance(value, float) and not math.isfinite(value) else value
