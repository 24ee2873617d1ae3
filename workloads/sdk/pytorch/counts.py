"""Whether every collective that the process groups started is one whose waiting was timed.

Each backend of a group numbers what it starts, whoever asks it to: Python, the reducer of
DistributedDataParallel in C++, functional collectives (`Backend::getSequenceNumberForGroup`; gloo
counts point-to-point and barriers, too). What Lockstep saw is counted beside it, and the two are
compared once a step.
"""

from typing import Any

import torch
from torch._C import _distributed_c10d
from torch.distributed import ProcessGroup, distributed_c10d

_HOST_BACKENDS = ("gloo",)
"""A collective of theirs has ended when a wait for it returns."""


class Counts:
    """Collectives started by all process groups, and those that are accounted for.

    Accounted for is what Python started (whoever waits for it does so where it is timed), what was
    started inside a call that was timed as a whole, and what is in the registry of functional
    collectives: nobody has waited for it yet.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}
        self._accounted = 0
        self._accounted_before = 0
        self.started: dict[str, int] = {}
        """Group name -> its collectives between the last two calls of `missing`, where any are."""

    def total(self) -> int:
        """Collectives that all groups there are have started, of those that count."""
        return sum(number(group) or 0 for group in distributed_c10d._world.pg_map)

    def accounted(self) -> int:
        """Collectives that are accounted for."""
        return self._accounted + registered()

    def account(self, collectives: int) -> None:
        """So many more are accounted for."""
        self._accounted += collectives

    def unaccounted(self) -> int:
        """Collectives that are started and not accounted for."""
        return self.total() - self.accounted()

    def account_group(self, group: ProcessGroup, before: int) -> int:
        """What the group has started since its number was `before` is accounted for."""
        started = (number(group) or 0) - before
        self._accounted += started
        return started

    def account_since(self, before: int) -> None:
        """What was started since `unaccounted` gave `before` is accounted for."""
        self._accounted += max(0, self.unaccounted() - before)

    def restart(self) -> None:
        """Forget what was started until now."""
        self.missing()

    def missing(self) -> str:
        """Why a collective since the last call was not timed; empty if all of them were."""
        why = ""
        self.started = {}
        now: dict[tuple[str, str], int] = {}
        for group in distributed_c10d._world.pg_map:
            for backend, count in numbers(group).items():
                key = group.group_name, backend
                before = self._seen.get(key)
                if count is None:
                    why = f"process groups over {backend} do not count their collectives"
                    continue
                now[key] = count
                if before is None:
                    why = why or "process groups were made"
                elif count != before and backend not in _HOST_BACKENDS:
                    why = "its collectives do not end on the host"
                if more := count - (before or 0):
                    self.started[key[0]] = self.started.get(key[0], 0) + more
        if not why and self._seen.keys() - now.keys():
            why = "process groups were destroyed"
        self._seen = now
        accounted = self.accounted()
        started = sum(self.started.values())
        untimed, self._accounted_before = (
            started - accounted + self._accounted_before,
            accounted,
        )
        if not why and untimed:
            why = f"{abs(untimed)} of {started} collectives of a step were not timed"
        return why


def numbers(group: ProcessGroup) -> dict[str, int | None]:
    """How many collectives each backend of the group has started; None where one does not count.

    A group of several, or of one that is named with its device, has no number of its own.
    """
    devices: list[torch.device] = group._device_types
    backends = {backend.name(): backend for backend in map(group._get_backend, devices)}
    return {name: _number(backend) for name, backend in backends.items()}


def number(group: ProcessGroup) -> int | None:
    """How many collectives the group has started; None where one of its backends does not count."""
    started = 0
    for count in numbers(group).values():
        if count is None:
            return None
        started += count
    return started


def _number(backend: Any) -> int | None:
    try:
        count: int = backend._get_sequence_number_for_group()
    except RuntimeError:  # "Backend fake does not yet support sequence numbers."
        return None
    return count


def registered() -> int:
    """Functional collectives that nobody has waited for yet."""
    return _distributed_c10d._get_work_registry_size()


def device_in_use() -> bool:
    """Whether the program computes on a device: then host times are not what a step took."""
    accelerators = (torch.cuda, torch.xpu)
    return any(accelerator.is_initialized() for accelerator in accelerators)
