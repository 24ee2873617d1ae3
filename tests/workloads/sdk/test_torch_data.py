"""The time that torch's DataLoader takes is phase `data`, once, of programs that do not mark it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

import pytest
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data import DataLoader, Dataset, IterableDataset

import lockstep
from lockstep.collector.clock import SystemClock
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.sdk.automatic import OptimizerSteps
from lockstep.workloads.sdk.pytorch.data import TorchData

pytestmark = pytest.mark.distributed

STEPS = 4
SLOW = 0.05
"""Seconds that a sample takes; far above what anything else here does."""
_DATA = PHASES.index(Phase.DATA)


class Slow(Dataset[torch.Tensor]):
    def __init__(self, seconds: float = SLOW) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        sleep(self.seconds)
        return torch.ones(4)


class Nested(IterableDataset[torch.Tensor]):
    """Reads another loader, in the same process."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in DataLoader(Slow()):
            yield batch[0]


def optimizer() -> torch.optim.Optimizer:
    weights = torch.nn.Parameter(torch.zeros(4))
    weights.grad = torch.ones(4)
    return torch.optim.SGD([weights], lr=0.1)


def a_program(loader: Any) -> None:
    """Knows nothing of Lockstep."""
    steps = optimizer()
    for _batch in loader:
        sleep(0.002)
        steps.step()


def variables(folder: Path) -> dict[str, str]:
    return {
        "LOCKSTEP_DIR": str(folder), "LOCKSTEP_RUN": "mine", "RANK": "0", "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
    }  # fmt: skip


def watched(folder: Path, loader: Callable[[], Any]) -> None:
    """As under `lockstep run --exec`."""
    told = OptimizerSteps(variables(folder))
    register_optimizer_step_pre_hook(told.before)
    register_optimizer_step_post_hook(told.after)
    a_program(loader())


def told(folder: Path) -> tuple[list[float], list[float]]:
    """Seconds of each step: in phase `data`, and of its wall time."""
    (rank,), _ = scan(folder, Path("/proc"), SystemClock())
    steps = read_records(rank.path, 0, None, SystemClock()).steps
    return [s.phase_ns[_DATA] / 1e9 for s in steps], [s.wall_ns / 1e9 for s in steps]


@pytest.mark.parametrize(
    "loader",
    [
        lambda: DataLoader(Slow()),
        lambda: DataLoader(Slow(3 * SLOW), num_workers=1, prefetch_factor=1),
        lambda: DataLoader(Slow(3 * SLOW), num_workers=1, persistent_workers=True),
        lambda: DataLoader(Nested()),
    ],
    ids=["alone", "worker", "persistent", "nested"],
)
def test_a_slow_loader_is_data_in_a_program_that_knows_nothing(forked, tmp_path, loader):
    forked(1, lambda rank: watched(tmp_path, loader))
    data, wall = told(tmp_path)

    assert STEPS == len(data)
    assert all(SLOW / 2 < d <= w for d, w in zip(data, wall, strict=True))


def test_a_fast_loader_is_not(forked, tmp_path):
    def program(rank: int) -> None:
        told = OptimizerSteps(variables(tmp_path))
        steps = optimizer()
        register_optimizer_step_post_hook(told.after)
        for _batch in DataLoader(Slow(0.0)):
            sleep(SLOW)
            steps.step()

    forked(1, program)
    data, wall = told(tmp_path)

    assert median(data) < SLOW / 2 < min(wall)


def test_a_program_with_a_recorder_and_a_loop_of_its_own_needs_no_phase(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()
        for _batch in DataLoader(Slow()):
            recorder.step_ended()

    forked(1, program)
    data, _ = told(tmp_path)

    assert min(data) >= SLOW


def test_what_recorder_steps_times_is_timed_once(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()
        for _batch in recorder.steps(DataLoader(Slow())):
            with recorder.phase("forward"):
                sleep(0.001)

    forked(1, program)
    data, wall = told(tmp_path)
    (rank,), _ = scan(tmp_path, Path("/proc"), SystemClock())
    ops = read_records(rank.path, 0, None, SystemClock()).ops

    assert all(SLOW <= d <= w for d, w in zip(data, wall, strict=True))
    # Making the iterator, each item, and the end.
    assert ["data-load"] * (1 + STEPS + 1) == [op.op for op in ops if op.op == "data-load"]


def test_a_loader_inside_a_phase_of_the_program_stays_in_it(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()
        for _ in range(STEPS):
            with recorder.step(), recorder.phase("eval"):
                list(DataLoader(Slow()))

    forked(1, program)
    data, _ = told(tmp_path)

    assert [0.0] * STEPS == data


def test_a_thread_that_fetches_ahead_makes_nobody_wait(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()
        fetching = threading.Thread(target=lambda: list(DataLoader(Slow())))
        fetching.start()
        fetching.join()
        recorder.step_ended()

    forked(1, program)
    data, _ = told(tmp_path)

    assert [0.0] == data


def test_where_another_thread_trains_its_loader_is_what_counts(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()

        def train() -> None:
            recorder.step_ended()
            for _batch in DataLoader(Slow()):
                recorder.step_ended()

        training = threading.Thread(target=train)
        training.start()
        training.join()

    forked(1, program)
    data, _ = told(tmp_path)

    assert min(data[1:]) >= SLOW


def test_a_data_set_with_phases_of_its_own_is_data_once(forked, tmp_path):
    def program(rank: int) -> None:
        recorder = lockstep.recorder(environment=variables(tmp_path))

        class Marked(Slow):
            def __getitem__(self, index: int) -> torch.Tensor:
                sleep(self.seconds / 2)
                with recorder.phase("data"):
                    sleep(self.seconds / 2)
                with recorder.phase("other"):
                    return torch.ones(4)

        for _batch in recorder.steps(DataLoader(Marked())):
            with recorder.phase("forward"):
                sleep(0.001)

    forked(1, program)
    data, wall = told(tmp_path)

    assert all(SLOW <= d <= w for d, w in zip(data, wall, strict=True))


def test_a_recorder_that_breaks_costs_the_program_nothing(forked, tmp_path):
    class Broken(StepRecorder):
        def __init__(self) -> None:
            self._depth = 0

        def phase(self, phase: Phase, tag: int = 0) -> Any:
            raise OSError("gone")

    def program(rank: int) -> int:
        data = TorchData()
        data.install()
        data.use(Broken())
        return len(list(DataLoader(Slow(0.0))))

    assert [STEPS] == forked(1, program)


def test_what_a_data_set_raises_reaches_the_program(forked, tmp_path):
    class Torn(Slow):
        def __getitem__(self, index: int) -> torch.Tensor:
            raise LookupError("torn")

    def program(rank: int) -> str:
        recorder = lockstep.recorder(environment=variables(tmp_path))
        recorder.watch_torch()
        try:
            list(DataLoader(Torn()))
        except LookupError as error:
            return str(error)
        return ""

    assert ["torn"] == forked(1, program)
