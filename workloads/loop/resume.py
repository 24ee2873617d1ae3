"""What a checkpoint says of itself in `lockstep.json`: enough to plan a run that goes on from it.

No torch, so that a checkpoint that cannot be used is refused before any rank starts.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.workloads.models.configs import GptConfig

ABOUT = "lockstep.json"
RESTORED = "restored"
"""Folder of an archive where each rank says when it read its checkpoint, until run.json has it."""
NAME = "step-"
MAX_ABOUT_BYTES = 16 * 2**20
COMPARED = ("style", "layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "sequence")


class CheckpointError(ValueError):
    """A checkpoint cannot be used or written; the message says which and why."""


@dataclass(frozen=True, slots=True)
class About:
    """What a checkpoint holds.

    Attributes:
        step: Steps that it has seen.
        updates: Those of them that changed the weights.
        batch: Sequences of all replicas in a step; it decides which data come next.
        model: Sizes of the model, as GptConfig.
        files: Bytes of every other file of the folder, by name.
    """

    step: int
    updates: int
    batch: int
    model: dict[str, Any]
    files: dict[str, int]

    def write(self, folder: Path) -> None:
        """Write `lockstep.json`.

        Raises:
            OSError: It cannot be written.
        """
        (folder / ABOUT).write_text(json.dumps(asdict(self), indent=1))


def tell_restored(folder: Path, rank: int, begin_ns: int, end_ns: int) -> None:
    """What a rank says of reading its checkpoint; who cannot say it trains all the same.

    Args:
        folder: RESTORED of the archive.
        begin_ns: Unix time on the clock of the run.
    """
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        span = {"begin": begin_ns / 1e9, "end": end_ns / 1e9}
        (folder / f"rank-{rank}.json").write_text(json.dumps(span))


def latest(folder: Path) -> Path:
    """The checkpoint that a folder is, or the latest of the checkpoints in it.

    Raises:
        CheckpointError: It is none and has none.
    """
    if (folder / ABOUT).is_file():
        return folder
    if not folder.is_dir():
        raise CheckpointError(f"there is no checkpoint {folder}")
    folders = [path.parent for path in folder.glob(f"{NAME}*/{ABOUT}")]
    if not folders:
        raise CheckpointError(
            f"{folder} is not a checkpoint and has none: no {ABOUT} in it or in a {NAME}* folder"
        )
    return max(folders, key=lambda path: path.name)


def about(folder: Path) -> About:
    """What a checkpoint says of itself.

    Raises:
        CheckpointError: It says nothing that can be read.
    """
    try:
        content = bounded_json.read(folder / ABOUT, limit=MAX_ABOUT_BYTES)
        files = {str(name): int(size) for name, size in dict(content["files"]).items()}
        result = About(
            step=int(content["step"]), updates=int(content["updates"]), batch=int(content["batch"]),
            model=dict(content["model"]), files=files,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"checkpoint {folder} cannot be read: {ABOUT}: {error!r}") from error
    if not 0 <= result.updates <= result.step:
        raise CheckpointError(
            f"checkpoint {folder} cannot be read: {result.updates} updates in {result.step} steps"
        )
    return result


def usable(folder: Path, config: GptConfig, batch: int) -> About:
    """What a checkpoint says of itself, if a run of this model and batch can go on from it.

    Raises:
        CheckpointError: It is not whole, of another model, or of another batch: the data would
            go on somewhere else.
    """
    checkpoint = about(folder)
    wanted = asdict(config)
    wrong = [
        f"{name} {checkpoint.model.get(name)} instead of {wanted[name]}"
        for name in COMPARED
        if checkpoint.model.get(name) != wanted[name]
    ]
    if wrong:
        raise CheckpointError(f"checkpoint {folder} is of another model: {', '.join(wrong)}")
    if checkpoint.batch != batch:
        raise CheckpointError(
            f"checkpoint {folder} has seen steps of {checkpoint.batch} sequences, and this run has"
            f" {batch}; make dp x --micro-batch x --micro-batches {checkpoint.batch}"
        )
    for name, size in checkpoint.files.items():
        has = _size(folder / name)
        if has != size:
            state = "is missing" if has is None else f"has {has} bytes instead of {size}"
            raise CheckpointError(f"checkpoint {folder} is not whole: {name} {state}")
    return checkpoint


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
