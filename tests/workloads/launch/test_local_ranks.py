"""The launcher's side of the ranks: which one failed first, in numbers of the kernel."""

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from lockstep.workloads.launch import watching
from lockstep.workloads.launch.launcher import PEER_LOST_CODE, Ending, Outcome
from lockstep.workloads.launch.local import Ranks
from lockstep.workloads.launch.rank_process import RankProcess
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.spec import Layout, RunSpec

SIGKILL, EXIT_1, PEER_LOST = int(signal.SIGKILL), 1 << 8, PEER_LOST_CODE << 8


def ended(folder: Path, statuses: list[int]) -> Outcome:
    processes = []
    for rank, status in enumerate(statuses):
        log = folder / f"rank-{rank}.log"
        log.write_text(f"Traceback\nError: of rank {rank}\n")
        processes.append(RankProcess(rank, 0, folder, log, status))
    spec = RunSpec("run", "gpt", Layout(1, len(statuses), len(statuses)), 10, 0)
    return Ranks(spec, processes).wait(lambda _progress: None)


@pytest.mark.parametrize(
    ("statuses", "first"),
    [
        ([0, EXIT_1, 0], (1,)),
        ([PEER_LOST, PEER_LOST, EXIT_1], (2,)),  # the others only missed it
        ([EXIT_1, SIGKILL, PEER_LOST], (1,)),  # as the kernel ends one for want of memory
        ([PEER_LOST, PEER_LOST, PEER_LOST], (0, 1, 2)),
    ],
)
def test_the_first_cause_is_named_and_not_its_victims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[int], first: tuple[int, ...]
) -> None:
    monkeypatch.setattr(watching, "AFTERMATH_SECONDS", 0.0)
    outcome = ended(tmp_path, statuses)

    assert (Ending.CRASH, first) == (outcome.ending, outcome.ranks)


def test_the_reason_is_the_last_line_of_the_first_causes_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AFTERMATH_SECONDS", 0.0)

    assert "exited with code 1: Error: of rank 1" == ended(tmp_path, [PEER_LOST, EXIT_1]).reason
    assert "killed by SIGKILL" == ended(tmp_path, [PEER_LOST, SIGKILL]).reason


def test_ranks_that_all_end_well_are_finished(tmp_path: Path) -> None:
    assert Outcome(Ending.FINISHED) == ended(tmp_path, [0, 0])


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({0: (50, True, 0.1), 1: (20, True, 0.1), 2: (50, True, 0.1), 3: (50, False, 9.0)}, (3,)),
        ({0: (50, True, 0.1), 1: (20, True, 0.1), 2: (50, True, 0.1), 3: (50, False, 0.1)}, (3,)),
        ({0: (50, True, 0.1), 1: (49, True, 0.1), 2: (50, True, 0.1), 3: (50, True, 0.1)}, (1,)),
        ({0: (50, True, 0.1), 1: (50, True, 0.1), 2: (50, True, 0.1), 3: (50, True, 0.1)}, ()),
    ],
    ids=["frozen", "outside a collective", "fewest arrivals", "all alike"],
)
def test_who_holds_the_others_up_is_told_also_where_stages_differ_in_collectives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: dict[int, tuple[int, bool, float]],
    wanted: tuple[int, ...],
) -> None:
    monkeypatch.setattr(RankProcess, "ring_state", lambda self: RingState(9, 1.0, *told[self.rank]))
    processes = [RankProcess(rank, 1, tmp_path, tmp_path) for rank in told]

    assert wanted == watching.laggards(processes)


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ({0: 9, 1: 9, 2: 4, 3: 9}, (2,)),
        ({0: 9, 1: 9, 2: 9, 3: 9}, ()),
        ({0: 9}, ()),
        ({0: 9, 1: 9, 2: 9}, ()),
    ],
    ids=["fewest steps", "all alike", "one log alone", "a rank that tells nothing"],
)
def test_ranks_that_arrive_nowhere_are_told_apart_by_their_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: dict[int, int], wanted: tuple[int, ...]
) -> None:
    told = {rank: RingState(number, 1.0, 0, False, 0.1) for rank, number in steps.items()}
    monkeypatch.setattr(RankProcess, "ring_state", lambda self: told.get(self.rank))
    processes = [RankProcess(rank, 1, tmp_path, tmp_path) for rank in range(4)]

    assert wanted == watching.laggards(processes)


@dataclass
class Still:
    """A rank that completes no step."""

    told_now: RingState
    rank: int = 0
    status: int | None = None

    def reap(self) -> bool:
        return False

    def ring_state(self) -> RingState:
        return self.told_now

    def how(self) -> str:
        return "it did not end"

    def raised(self) -> str:
        return ""


def test_a_long_evaluation_is_no_hang_while_it_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by 1 s a poll; the evaluation gets on for 100 s, then stands still."""
    now = [0.0]

    def wait(_seconds: float) -> None:
        now[0] += 1.0
        if now[0] > 100:
            rank.told_now = RingState(
                5, 1.0, 50, True, 0.1, evaluates=True, progress_age=now[0] - 100
            )

    rank = Still(RingState(5, 1.0, 50, True, 0.1, evaluates=True, progress_age=0.5))
    monkeypatch.setattr(watching, "monotonic", lambda: now[0])
    monkeypatch.setattr(watching, "sleep", wait)
    spec = RunSpec("run", "gpt", Layout(1, 1, 1), 10, 0, hang_timeout=10.0)
    outcome = watching.watch(spec, [rank], lambda: None, lambda _progress: None)

    assert Ending.HANG == outcome.ending
    assert now[0] == pytest.approx(120, abs=3)
