"""Reads torch's checkpoints without running what a foreign one may hold.

Their metadata are a pickle, which torch 2.13 reads unrestricted; tensors it reads as weights only.
"""

import pickle
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

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


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")
        return super().find_class(module, name)
