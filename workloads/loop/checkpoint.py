"""Checkpoints that any layout can resume: every tensor is saved whole, in parts, by its name.

Reads torch's checkpoints without running what a foreign one may hold.

Their metadata are a pickle, which torch 2.13 reads unrestricted; tensors it reads as weights only.
"""

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from lockstep.workloads.loop.resume import ABOUT, NAME, About, CheckpointError, usable
from lockstep.workloads.models.gpt import Gpt
from lockstep.workloads.models.optimizer import MOMENTS, Moments, Optimizer
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.parallel.tensor import shard_dimension

KEPT = 3
"""The latest checkpoints of a run that stay."""


class Checkpoints:
    """Writes the state of a run's model and optimizer, and takes it up again.

    Args:
        folder: Where a run writes its own.
        tp: Mesh of this rank's tensor-parallel group.
        batch: Sequences of all replicas in a step.
    """

    def __init__(
        self, folder: Path, chunks: Sequence[Gpt], optimizer: Optimizer, tp: DeviceMesh,
        comm: Comm, batch: int,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._chunks = chunks
        self._optimizer = optimizer
        self._tp = tp
        self._batch = batch
        self._device = next(chunks[0].parameters()).device
        self._leads = comm.rank("world") == 0
        self._agree = comm.collective("world-all-reduce", "world", "checkpoint")

    def save(self, step: int) -> None:
        """Write the state after `step` steps to `step-<step>`; every rank takes part.

        The folder has its final name only once it is whole. Older ones than the last KEPT go.

        Raises:
            CheckpointError: It cannot be written, on every rank; the older ones stay.
            PeerLostError: The connection to a peer broke.
        """
        final = self._folder / f"{NAME}{step:08d}"
        hidden = self._folder / f".{final.name}.new"
        moments = self._optimizer.moments()
        self._together(final, hidden, lambda: _made_anew(hidden), only_lead=True)
        state = _state(self._chunks, moments, self._tp, saving=True)
        self._together(final, hidden, lambda: state_dict_saver.save(state, checkpoint_id=hidden))
        self._together(final, hidden, lambda: self._publish(step, hidden, final), only_lead=True)

    def load(self, folder: Path) -> int:
        """Take up the state of a checkpoint; returns the number of steps that it has seen.

        Raises:
            CheckpointError: There is none, it is broken, or it is of another model.
        """
        about = usable(folder, self._chunks[0].config, self._batch)
        moments: Moments = {
            parameter: {name: torch.zeros_like(parameter) for name in MOMENTS}
            for chunk in self._chunks
            for parameter in chunk.parameters()
        }
        state = _state(self._chunks, moments, self._tp, saving=False)
        try:
            state_dict_loader.load(state, storage_reader=Reader(folder))
        except (OSError, RuntimeError, ValueError, CheckpointException) as error:
            raise CheckpointError(f"checkpoint {folder} cannot be read: {_cause(error)}") from error
        self._optimizer.take(about.updates, moments)
        return about.step

    def _together(
        self, final: Path, hidden: Path, act: Callable[[], object], *, only_lead: bool = False
    ) -> None:
        """Do a part of saving on every rank, or on the first; an error is everybody's."""
        error: BaseException | None = None
        try:
            if self._leads or not only_lead:
                act()
        except (OSError, RuntimeError, ValueError, CheckpointException) as raised:
            error = raised
        failed = torch.tensor([float(error is not None)], device=self._device)
        self._agree.all_reduce(failed, dist.ReduceOp.MAX)
        if failed.item():
            if self._leads:
                shutil.rmtree(hidden, ignore_errors=True)  # its name is no checkpoint's anyway
            cause = "another rank failed" if error is None else _cause(error)
            raise CheckpointError(f"checkpoint {final} cannot be written: {cause}") from error

    def _publish(self, step: int, hidden: Path, final: Path) -> None:
        files = {path.name: path.stat().st_size for path in hidden.iterdir()}
        model = asdict(self._chunks[0].config)
        About(step, self._optimizer.updates, self._batch, model, files).write(hidden)
        shutil.rmtree(final, ignore_errors=True)
        hidden.rename(final)
        for old in sorted(self._folder.glob(f"{NAME}*"))[:-KEPT]:
            (old / ABOUT).unlink(missing_ok=True)  # first of all: half of it is no checkpoint
            shutil.rmtree(old)


def _made_anew(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _cause(error: BaseException) -> str:
    """The first rank's error of several, in a line."""
    if isinstance(error, CheckpointException) and error.failures:
        rank, (first, _) = min(error.failures.items())
        return f"rank {rank}: {_cause(first)}"
    if isinstance(error, UnpicklingError):  # torch's own words advise to allow more
        return "its contents are damaged"
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _state(
    chunks: Sequence[Gpt], moments: Moments, tp: DeviceMesh, *, saving: bool
) -> dict[str, DTensor]:
    """Every tensor of this rank by a name that is the same in all layouts."""
    state: dict[str, DTensor] = {}
    for name, parameter in _named(chunks, saving=saving):
        placement = _placement(parameter, name)
        for kind, value in {"model": parameter.data, **moments[parameter]}.items():
            local = value.flatten(0, 1) if name == "tokens.weight" and value.dim() == 3 else value
            state[f"{kind}.{name}"] = DTensor.from_local(local, tp, [placement], run_check=False)
    return state


def _named(chunks: Sequence[Gpt], *, saving: bool) -> Iterator[tuple[str, nn.Parameter]]:
    """Parameters; a tied output is the embedding, which its own stage saves."""
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            if name == "output.weight" and chunk.config.tied:
                if not saving:
                    yield "tokens.weight", parameter
            else:
                yield name, parameter


def _placement(parameter: nn.Parameter, name: str) -> Placement:
    dimension = shard_dimension(parameter)
    if dimension is None:
        return Replicate()
    return Shard(0 if name == "tokens.weight" else dimension)


METADATA_FILE = ".metadata"
_ALLOWED: dict[str, frozenset[str]] = {
    "torch": frozenset({"Size", "float32"}),
    "torch.serialization": frozenset({"_get_layout"}),
    "torch.distributed.checkpoint.filesystem": frozenset({"_StorageInfo"}),
    "torch.distributed.checkpoint.metadata": frozenset({
        "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties", "TensorStorageMetadata",
        "ChunkStorageMetadata", "_MEM_FORMAT_ENCODING",
    }),
    "pathlib": frozenset({"PosixPath", "PurePosixPath"}),
    "pathlib._local": frozenset({"PosixPath", "PurePosixPath"}),
}  # fmt: skip
"""What the metadata of fp32 tensors consist of, by module."""


class Reader(FileSystemReader):
    """torch's reader, whose metadata may be nothing but metadata."""

    def read_metadata(self, *_arguments: Any, **_named: Any) -> Metadata:
        """See FileSystemReader.

        Raises:
            UnpicklingError: They are damaged, or hold anything else.
        """
        with (Path(self.path) / METADATA_FILE).open("rb") as file:
            metadata = _Unpickler(file).load()
        if not isinstance(metadata, Metadata):
            raise pickle.UnpicklingError(f"{METADATA_FILE} is not torch's")
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _member(of: Any, name: str) -> Enum:
    """A member of an enumeration, which Python 3.11.2 (Debian 12) pickles as a `getattr`."""
    if not (isinstance(of, type) and issubclass(of, Enum)):
        raise pickle.UnpicklingError("builtins.getattr has no place in a checkpoint")
    return of[name]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):
            return _member
        if name not in _ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")
        return super().find_class(module, name)
