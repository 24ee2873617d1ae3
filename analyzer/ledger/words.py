"""A ledger as one sentence, and as JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, Bucket
from lockstep.analyzer.ledger.faults import DAY, Fleet
from lockstep.analyzer.ledger.ledger import Ledger, by_team, team_of
from lockstep.analyzer.ledger.reliability import Estimate, of_fleet, of_node, of_run
from lockstep.analyzer.ledger.starting import PLACE
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import StartPart

SCHEMA_VERSION = 1
HOUR = 3600.0


def sentence(ledger: Ledger) -> str:
    """`71% useful; the largest loss is node-7 (thermal), 9%`."""
    if not ledger.rank_seconds > 0:
        return "Its time is unknown."
    useful = f"{percent(ledger.goodput)} useful"
    who, share = largest_loss(ledger)
    if who is None:
        return f"{useful}; nothing was lost"
    return f"{useful}; the largest loss is {who}, {percent(share)}"


def largest_loss(ledger: Ledger) -> tuple[str | None, float]:
    """The dearest culprit or unproductive bucket, in words, and its share of all rank-seconds."""
    losses = [
        (ledger.share(row.bucket), row.title)
        for row in BUCKETS
        if not row.productive and row.bucket is not Bucket.STRAGGLER
    ]
    losses += [
        (one.seconds / ledger.rank_seconds, f"{one.who} ({one.cause})") for one in ledger.stragglers
    ]
    share, who = max(losses)
    return (who, share) if share > 0 else (None, 0.0)


def ledger_json(ledgers: Sequence[Ledger], price: float | None = None) -> dict[str, Any]:
    """The tree of `lockstep ledger` (docs/reference/ledger.md).

    Args:
        ledgers: One a run.
        price: Money per GPU-hour; None = no price.
    """
    whole = sum((one.seconds.sum(axis=0) for one in ledgers), np.zeros(len(BUCKETS)))
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [_run(one, price) for one in ledgers],
        "teams": {
            team: _buckets(sums, price, joules_of([one for one in ledgers if team_of(one) == team]))
            for team, sums in by_team(ledgers).items()
        },
        "all": {
            "buckets": _buckets(whole, price, joules_of(ledgers)),
            "rank_seconds": float(sum(one.rank_seconds for one in ledgers)),
        },
        "reliability": {
            "node": of_node(ledgers).to_dict(),
            "fleet": of_fleet(ledgers).to_dict(),
        },
    }


def fleet_json(fleet: Fleet) -> dict[str, Any]:
    """The tree of `lockstep ledger --faults`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "nodes": fleet.nodes,
        "failed_nodes": fleet.failed_nodes,
        "days": fleet.seconds / DAY,
        "faults": fleet.faults,
        "reliability": {"node": fleet.node.to_dict(), "fleet": fleet.fleet.to_dict()},
        "kinds": dict(fleet.kinds),
    }


def spoken(estimate: Estimate) -> str:
    """`37 h (35 to 41)`; what is not known is said so."""
    value, (low, high) = estimate.value, estimate.interval
    if not np.isfinite(value):
        return f"at least {duration(low)}" if np.isfinite(low) else "unknown"
    if not np.isfinite(low):
        return f"{duration(value)} (interval unknown)"
    return f"{duration(value)} ({duration(low)} to {duration(high)})"


def spoken_share(estimate: Estimate) -> str:
    """`71% (65% to 75%)`; the interval may not be known."""
    low, high = estimate.interval
    if not np.isfinite(estimate.value):
        return "unknown"
    if not np.isfinite(low):
        return f"{percent(estimate.value)} (interval unknown)"
    return f"{percent(estimate.value)} ({percent(low)} to {percent(high)})"


def spoken_part(part: StartPart) -> str:
    """A part of starting in a table, where a bucket is called unknown, too."""
    return "not measured" if part is StartPart.UNKNOWN else str(part)


def duration(seconds: float) -> str:
    """In the unit in which it reads best."""
    for size, unit in ((DAY, "days"), (HOUR, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _run(ledger: Ledger, price: float | None) -> dict[str, Any]:
    return {
        "run": ledger.run,
        "team": team_of(ledger),
        "sentence": sentence(ledger),
        "attempts": [
            {
                "name": one.name, "begin": one.begin, "end": one.end, "ending": one.ending,
                "ranks": len(one.run.ranks),
            }
            for one in ledger.attempts
        ],
        "launches": ledger.launches,
        "ranks": len(ledger.ranks),
        "wall_seconds": ledger.wall_seconds,
        "rank_seconds": ledger.rank_seconds,
        "goodput": _known(ledger.goodput),
        "ettr": _known(ledger.ettr),
        "buckets": [
            {**each, "parts": _parts(ledger)} if each["bucket"] == Bucket.STARTING else each
            for each in _buckets(ledger.seconds.sum(axis=0), price, joules_of([ledger]))
        ],
        "energy_told_share": ledger.powered_seconds / ledger.rank_seconds
        if ledger.rank_seconds > 0 else None,
        "stragglers": [
            {
                "who": one.who, "node": one.node, "cause": one.cause, "seconds": one.seconds,
                "share": one.seconds / ledger.rank_seconds, "gpu_hours": one.seconds / HOUR,
                "money": None if price is None else one.seconds / HOUR * price,
            }
            for one in ledger.stragglers
        ],
        "by_rank": [
            {"rank": rank, "seconds": dict(zip(INDEX, row, strict=True)),
             "starting": dict(zip(PLACE, parts, strict=True))}
            for rank, row, parts in zip(
                ledger.ranks, ledger.seconds.tolist(), ledger.starting.tolist(), strict=True
            )
        ],
        "reliability": of_run(ledger).to_dict(),
        "missing": list(ledger.missing),
        "provenance": list(ledger.provenance),
    }  # fmt: skip


def _parts(ledger: Ledger) -> list[dict[str, Any]]:
    """What starting was; null where it was not measured."""
    whole = ledger.rank_seconds
    return [
        {"part": part, "seconds": seconds,
         "share": seconds / whole if seconds is not None and whole > 0 else None}
        for part, seconds in ledger.parts().items()
    ]  # fmt: skip


def joules_of(ledgers: Sequence[Ledger]) -> FloatGrid | None:
    """(len(BUCKETS),) energy of the GPUs of some runs, as far as reported; None = of none."""
    if not any(one.powered_seconds > 0 for one in ledgers):
        return None
    return np.asarray(sum(one.joules.sum(axis=0) for one in ledgers))


def _buckets(sums: Any, price: float | None, joules: FloatGrid | None) -> list[dict[str, Any]]:
    whole = float(sums.sum())
    return [
        {
            "bucket": row.bucket,
            "seconds": float(sums[INDEX[row.bucket]]),
            "share": float(sums[INDEX[row.bucket]]) / whole if whole > 0 else None,
            "gpu_hours": float(sums[INDEX[row.bucket]]) / HOUR,
            "money": None if price is None else float(sums[INDEX[row.bucket]]) / HOUR * price,
            "energy_joules": None if joules is None else float(joules[INDEX[row.bucket]]),
        }
        for row in BUCKETS
    ]


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def percent(share: float) -> str:
    """`71%`, and of what is less than a tenth `9.1%`."""
    return f"{share:.0%}" if share >= 0.1 or share <= 0 else f"{share:.1%}"
