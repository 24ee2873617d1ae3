"""Whether every collective that the process groups started is one whose waiting was timed.

Each group numbers what it starts, whoever asks it to: Python, DistributedDataParallel's reducer in
C++, functional collectives (`Backend::getSequenceNumberForGroup`; gloo counts point-to-point and
barriers, too). What Lockstep saw is counted beside it, and the two are compared once a step.
"""

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
        self._seen: dict[str, int] = {}
        self._on_host: dict[str, bool] = {}
        self._accounted = 0
        self._accounted_before = 0

    def total(self) -> int:
        """Collectives that all groups there are have started."""
        return sum(map(number, distributed_c10d._world.pg_map))

    def accounted(self) -> int:
        """Collectives that are accounted for."""
        return self._accounted + registered()

    def account(self, collectives: int) -> None:
        """So many more are accounted for."""
        self._accounted += collectives

    def restart(self) -> None:
        """Forget what was started until now."""
        self.missing()

    def missing(self) -> str:
        """Why a collective since the last call was not timed; empty if all of them were."""
        why, started = "", 0
        now: dict[str, int] = {}
        for group in distributed_c10d._world.pg_map:
            name, count = group.group_name, number(group)
            now[name] = count
            before = self._seen.get(name)
            if before is None:
                why = "process groups were made"
                self._on_host[name] = _is_on_host(group)
            elif count != before and not self._on_host[name]:
                why = "its collectives do not end on the host"
            started += count - (before or 0)
        if not why and self._seen.keys() - now.keys():
            why = "process groups were destroyed"
        self._seen = now
        accounted = self.accounted()
        untimed, self._accounted_before = (
            started - accounted + self._accounted_before,
            accounted,
        )
        self.started = started
        if not why and untimed:
            why = f"{abs(untimed)} of {started} collectives of a step were not timed"
        return why

    started = 0
    """Collectives between the last two calls of `missing`."""


def number(group: ProcessGroup) -> int:
    """How many collectives the group has started."""
    count: int = group._get_sequence_number_for_group()  # type: ignore[attr-defined]
    return count


def registered() -> int:
    """Functional collectives that nobody has waited for yet."""
    return _distributed_c10d._get_work_registry_size()


def _is_on_host(group: ProcessGroup) -> bool:
    """Whether all that the group can do ends on the host."""
    names = {group._get_backend(device).name() for device in group._device_types}
    return names <= set(_HOST_BACKENDS)


def device_in_use() -> bool:
    """Whether the program computes on a device: then host times are not what a step took."""
    accelerators = (torch.cuda, torch.xpu)
    return any(each.is_initialized() for each in accelerators)
