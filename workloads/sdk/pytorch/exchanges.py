"""With whom a program's process groups exchange data: which groups, which peers, how much.

Who shares no group is no replica of the other, and who only averages gradients with the others
gets no work from them (docs/method/peers.md#roles). Collectives are seen where Python starts them;
those that C++ starts (functional collectives, broadcasts of buffers) are counted by their group.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup, distributed_c10d

from lockstep.collector.contract import ring
from lockstep.workloads.recording import WARMUP_STEPS
from lockstep.workloads.ring import RingWriter

TRANSFERS = ("send", "recv", "recv_anysource")
FEW_BYTES = 64
"""An all-reduce of at most eight numbers: a loss, a norm, a flag. No work is handed on by it."""
_HASH_BYTES = 6
_MOST = (1 << 32) - 1


class Exchanges:
    """Those of one process since its last warm-up step."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget what was until now."""
        self._steps = 0
        self._names: dict[str, tuple[int, int]] = {}
        self._clear()

    def _clear(self) -> None:
        self._total = self._plain = 0
        self._seen: dict[str, int] = {}
        self._unseen: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._peers: dict[int, int] = {}
        self._changed = True

    def began(
        self, name: str, group: ProcessGroup, given: tuple[Any, ...], count: int, *, averaging: bool
    ) -> None:
        """A method of a process group was called by Python.

        Args:
            given: Its arguments.
            count: Collectives that the group has counted in it.
            averaging: Whether DistributedDataParallel averages gradients just now.
        """
        key = self._name_of(group)
        self._seen[key] = self._seen.get(key, 0) + count
        size = _bytes(given)
        reduces = name.startswith("allreduce")
        if name == "barrier" or (reduces and (averaging or size <= FEW_BYTES)):
            self._plain += count
        if name in TRANSFERS:
            self._transfer(name, group, given, size)
        elif size:
            self._changed |= key not in self._groups
            self._groups[key] = self._groups.get(key, 0) + size

    def step_ended(self, writer: RingWriter, started: Mapping[str, int]) -> None:
        """Count the step, and write what is known by now where that says more than before.

        Args:
            started: Group name -> collectives that it has counted in the step.
        """
        self._steps += 1
        # Groups that are made later may have the same names, and count from 0.
        if not dist.is_initialized() or min(started.values(), default=0) < 0:
            self.restart()
            return
        if self._steps <= WARMUP_STEPS:
            self._clear()
            return
        mixed = self._total != self._plain
        if not started.keys() <= self._names.keys():
            for group in distributed_c10d._world.pg_map:
                self._name_of(group)
        for key, count in started.items():
            self._total += count
            unseen = count - self._seen.get(key, 0)
            if unseen > 0:
                self._changed |= key not in self._unseen
                self._unseen[key] = self._unseen.get(key, 0) + unseen
        self._seen.clear()
        self._changed |= mixed != (self._total != self._plain)
        since, who = self._steps - WARMUP_STEPS, writer.identity
        if (dist.get_rank(), dist.get_world_size()) != (who.rank, who.world):
            return  # the program counts its ranks otherwise: nobody would know who is meant
        if self._changed or since & (since - 1) == 0:
            writer.exchange(self._told())
            self._changed = False

    def _told(self) -> ring.Exchange:
        groups = [
            ring.ExchangeGroup(
                self._names[key][0], self._groups.get(key, 0), self._names[key][1],
                min(self._unseen.get(key, 0), _MOST),
            )
            for key in dict.fromkeys((*self._groups, *self._unseen))
        ]  # fmt: skip
        peers = [ring.ExchangePeer(size, rank, 1) for rank, size in self._peers.items()]
        most = ring.MAX_PARTNERS
        return ring.Exchange(
            self._total, self._plain, int(max(len(groups), len(peers)) > most),
            tuple(groups[:most]), tuple(peers[:most]),
        )  # fmt: skip

    def _transfer(self, name: str, group: ProcessGroup, given: tuple[Any, ...], size: int) -> None:
        if name == "recv_anysource":
            return  # who sends it says to whom
        peer = dist.get_global_rank(group, given[1])
        self._changed |= peer not in self._peers
        self._peers[peer] = self._peers.get(peer, 0) + size

    def _name_of(self, group: ProcessGroup) -> str:
        key: str = group.group_name
        if key not in self._names:
            members = sorted(dist.get_process_group_ranks(group))
            words = ",".join(map(str, members)).encode()
            number = int.from_bytes(blake2b(words, digest_size=_HASH_BYTES).digest())
            self._names[key] = number or 1, len(members)
        return key


def _bytes(given: Any) -> int:
    """Of all tensors in it."""
    if isinstance(given, torch.Tensor):
        return given.numel() * given.element_size()
    return sum(map(_bytes, given)) if isinstance(given, (list, tuple)) else 0
