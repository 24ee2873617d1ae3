"""One fault plan on every rank: rank 0 has it, the others are told.

A local run forks its ranks with the plan. Where each rank reads the command line for itself, a
plan drawn from what a machine can do may differ from machine to machine: rank 0's counts.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Protocol

import torch

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.link import LinkSetting
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.faults.settings import FaultError

MOST_BYTES = 1 << 20


class Broadcast(Protocol):
    """A collective of the world group, as comm.Collective."""

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Every rank gets what rank `source` has."""
        ...


def encode(faults: tuple[Fault, ...]) -> bytes:
    """Faults as JSON."""
    return json.dumps([asdict(fault) for fault in faults]).encode()


def decode(raw: bytes) -> tuple[Fault, ...]:
    """What `encode` made.

    Raises:
        FaultError: It is something else.
    """
    try:
        return tuple(_fault(entry) for entry in bounded_json.loads(raw))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FaultError(f"rank 0 sent a fault plan that cannot be read: {error}") from error


def agree(broadcast: Broadcast, rank: int, faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """The plan of rank 0, on every rank; a collective operation.

    Raises:
        FaultError: What rank 0 told is no plan.
        PeerLostError: The connection to a peer broke.
    """
    encoded = encode(faults) if rank == 0 else b""
    size = torch.tensor([len(encoded)], dtype=torch.int64)
    broadcast.broadcast(size, 0)
    if not 0 < size.item() <= MOST_BYTES:
        raise FaultError(f"rank 0 sent a fault plan of {size.item()} bytes; at most {MOST_BYTES}")
    if rank == 0:
        content = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    else:
        content = torch.zeros(int(size.item()), dtype=torch.uint8)
    broadcast.broadcast(content, 0)
    return decode(bytes(content.tolist()))


def _fault(entry: Mapping[str, Any]) -> Fault:
    names = {field.name for field in fields(Fault)}
    if entry.keys() != names:
        raise FaultError("its faults have other fields: the ranks run different versions")
    link = entry["link"]
    return Fault(
        **{
            **entry,
            "kind": FaultKind(entry["kind"]),
            "pool": tuple(entry["pool"]),
            "link": None if link is None else LinkSetting(**link),
        }
    )
