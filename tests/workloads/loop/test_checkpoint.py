"""Checkpoints: what is not whole is named, a failed save leaves the older ones."""

import io
import json
import os
import pickle
import resource
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, Metadata

from lockstep.runs.planning import plan
from lockstep.terminal.output import CommandError
from lockstep.workloads.loop.checkpoint import KEPT, Checkpoints, _Unpickler
from lockstep.workloads.loop.resume import ABOUT, About, CheckpointError, about, latest, usable
from lockstep.workloads.models.configs import TINY, TINY_LLAMA, resized
from lockstep.workloads.models.gpt import Gpt, initialize
from lockstep.workloads.models.optimizer import Optimizer, Rate
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.spec import Layout, Training
from tests.workloads.ranks import recorder_of

BATCH = 4
Forked = Callable[[int, Callable[[int], Any]], list[Any]]


def written(folder: Path, step: int = 20) -> Path:
    """A checkpoint of the tiny model as far as planning looks."""
    made = folder / f"step-{step:08d}"
    made.mkdir(parents=True)
    (made / "part").write_bytes(b"12345")
    About(step, step, BATCH, asdict(TINY), {"part": 5}).write(made)
    return made


def test_a_folder_of_checkpoints_means_the_latest_whole_one(tmp_path: Path) -> None:
    written(tmp_path, 20)
    wanted = written(tmp_path, 100)
    hidden = written(tmp_path, 120)
    hidden.rename(tmp_path / ".step-00000120.new")
    (tmp_path / "step-00000140").mkdir()

    assert wanted == latest(tmp_path) == latest(wanted)
    assert 100 == usable(wanted, TINY, BATCH).step


def test_no_checkpoint_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint and has none"):
        latest(tmp_path)
    with pytest.raises(CheckpointError, match=r"there is no checkpoint .*nowhere"):
        latest(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"step": 3}', '{"step": "x", "model": {}}', "[" * 99_999,
             '{"step": 3, "updates": 4, "batch": 4, "model": {}, "files": {}}',
             '{"step": 3, "updates": 3, "batch": 4, "model": {}, "files": 7}']
)  # fmt: skip
def test_a_damaged_description_is_a_sentence(tmp_path: Path, text: str) -> None:
    folder = written(tmp_path)
    (folder / ABOUT).write_text(text)

    with pytest.raises(CheckpointError, match="cannot be read"):
        about(folder)


def test_a_checkpoint_of_another_model_is_refused_with_what_differs(tmp_path: Path) -> None:
    folder = written(tmp_path)

    with pytest.raises(CheckpointError, match="vocabulary 64 instead of 128"):
        usable(folder, resized(TINY, vocabulary=128), BATCH)
    with pytest.raises(CheckpointError, match="of another model: style gpt3 instead of llama"):
        usable(folder, TINY_LLAMA, BATCH)


def test_another_batch_would_go_on_with_other_data(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"steps of 4 sequences, and this run has 8; make dp"):
        usable(written(tmp_path), TINY, 2 * BATCH)


def test_half_a_checkpoint_is_refused_with_the_file(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "part").write_bytes(b"1234")
    with pytest.raises(CheckpointError, match="not whole: part has 4 bytes instead of 5"):
        usable(folder, TINY, BATCH)
    (folder / "part").unlink()

    with pytest.raises(CheckpointError, match="not whole: part is missing"):
        usable(folder, TINY, BATCH)


def planned(resume: Path, steps: int = 60, **more: Any) -> str | None:
    training = Training(resume=str(resume), **more)
    return plan(
        "gpt", nodes=2, ranks_per_node=1, steps=steps, seed=0, faults=[], training=training,
        token="abcd",
    ).training.resume  # fmt: skip


def test_planning_refuses_before_any_rank_starts(tmp_path: Path) -> None:
    folder = written(tmp_path)
    for wrong, more, code in (
        (tmp_path / "nowhere", {}, 65),
        (folder, {"vocabulary": 128}, 65),
        (folder, {"micro_batch": 4}, 65),
        (folder, {"steps": 20}, 64),
    ):
        with pytest.raises(CommandError) as raised:
            planned(wrong, **more)

        assert code == raised.value.code
    assert str(folder) == planned(tmp_path)


def joined(rank: int, world: int, folder: Path) -> tuple[Gpt, Checkpoints]:
    recorder = recorder_of(rank, Layout(1, world, world), folder)
    groups = mesh.build(Layout(1, world, world))
    model = Gpt(TINY)
    initialize(model, 1)
    optimizer = Optimizer(list(model.parameters()), Rate(1e-3, 1, 10))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.25)
    optimizer.step(0, torch.tensor(1.0))
    comm = Comm(recorder, groups.groups)
    made = Checkpoints(folder / "checkpoints", [model], optimizer, groups.grid["tp"], comm, BATCH)
    return model, made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.distributed
def test_the_last_few_stay_and_each_says_what_it_holds(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> str:
        _, checkpoints = joined(rank, 2, tmp_path)
        for step in range(1, KEPT + 3):
            checkpoints.save(step)
        return ""

    forked(2, work)
    folder = tmp_path / "checkpoints"

    assert [f"step-{step:08d}" for step in range(3, KEPT + 3)] == names(folder)
    for one in folder.iterdir():
        told = usable(one, TINY, BATCH)
        assert int(one.name[-8:]) == told.step
        assert {ABOUT, *told.files} == set(names(one))
        assert {".metadata", "__0_0.distcp"} <= set(told.files)


@pytest.mark.distributed
def test_a_full_disk_is_named_on_every_rank_and_older_checkpoints_stay(
    forked: Forked, tmp_path: Path
) -> None:
    def work(rank: int) -> str:
        _, checkpoints = joined(rank, 2, tmp_path)
        checkpoints.save(1)
        if rank == 1:  # a limit on this process' files is as good as a disk that is full
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        try:
            checkpoints.save(2)
        except CheckpointError as error:
            return str(error)
        return "nothing was noticed"

    for told in forked(2, work):
        assert "step-00000002 cannot be written: rank 1: " in told
        assert "\n" not in told
    assert ["step-00000001"] == names(tmp_path / "checkpoints")
    assert 1 == usable(latest(tmp_path / "checkpoints"), TINY, BATCH).step


@pytest.mark.distributed
def test_a_folder_that_cannot_be_made_is_named_on_every_rank(
    forked: Forked, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("a file")

    def work(rank: int) -> str:
        try:
            joined(rank, 2, tmp_path)[1].save(1)
        except CheckpointError as error:
            return str(error)
        return "nothing was noticed"

    told, other = forked(2, work)

    assert "cannot be written: [Errno 20] Not a directory" in told
    assert "cannot be written: another rank failed" in other


@pytest.mark.distributed
@pytest.mark.parametrize("damaged", [".metadata", "__0_0.distcp"])
def test_damage_inside_is_a_sentence_too(forked: Forked, tmp_path: Path, damaged: str) -> None:
    def save(rank: int) -> str:
        joined(rank, 1, tmp_path)[1].save(1)
        return ""

    forked(1, save)
    folder = latest(tmp_path / "checkpoints")
    raw = bytearray((folder / damaged).read_bytes())
    raw[: len(raw) // 2] = bytes(len(raw) // 2)
    (folder / damaged).write_bytes(raw)
    (tmp_path / "rendezvous").unlink()

    def load(rank: int) -> str:
        try:
            joined(rank, 1, tmp_path)[1].load(folder)
        except CheckpointError as error:
            return str(error)
        return "nothing was noticed"

    (told,) = forked(1, load)

    assert told.startswith(f"checkpoint {folder} cannot be read: ")
    assert "\n" not in told


class AsOlderPython:
    """A member of an enumeration, as 3.11.2 pickles it; or any other attribute."""

    def __init__(self, of: Any, name: str) -> None:
        self.told = (of, name)

    def __reduce__(self) -> Any:
        return getattr, self.told


def test_metadata_are_read_whichever_python_wrote_them(tmp_path: Path) -> None:
    stored = pickle.dumps(AsOlderPython(_MEM_FORMAT_ENCODING, "TORCH_PRESERVE_FORMAT"))
    assert _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT is _Unpickler(io.BytesIO(stored)).load()

    for of, name in ((Metadata, "__init__"), (_MEM_FORMAT_ENCODING, "__subclasses__")):
        stored = pickle.dumps(AsOlderPython(of, name))
        with pytest.raises((pickle.UnpicklingError, KeyError)):
            _Unpickler(io.BytesIO(stored)).load()


@pytest.mark.distributed
def test_a_foreign_checkpoint_runs_nothing(forked: Forked, tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "hacked"),)

    def work(rank: int) -> str:
        _, checkpoints = joined(rank, 1, tmp_path)
        checkpoints.save(1)
        folder = latest(tmp_path / "checkpoints")
        (folder / ".metadata").write_bytes(pickle.dumps(Hostile()))
        told = json.loads((folder / ABOUT).read_text())
        told["files"][".metadata"] = (folder / ".metadata").stat().st_size
        (folder / ABOUT).write_text(json.dumps(told))
        try:
            checkpoints.load(folder)
        except CheckpointError as error:
            return str(error)
        return "nothing was noticed"

    (told,) = forked(1, work)

    assert told.endswith("mkdir has no place in a checkpoint")
    assert not (tmp_path / "hacked").exists()


@pytest.mark.distributed
def test_updates_are_not_steps_where_some_were_skipped(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> int:
        _, checkpoints = joined(rank, 1, tmp_path)
        checkpoints.save(7)
        folder = latest(tmp_path / "checkpoints")
        assert 7 == checkpoints.load(folder)
        return checkpoints._optimizer.updates

    assert [1] == forked(1, work)
    told = json.loads((latest(tmp_path / "checkpoints") / ABOUT).read_text())
    assert (7, 1) == (told["step"], told["updates"])
