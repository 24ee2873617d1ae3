"""The launcher's side of an mpirun, which a small program plays: what its lines make of a run."""

import math
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch import watching
from lockstep.workloads.launch.keeper import Report, parsed
from lockstep.workloads.launch.launcher import Ending, LaunchError, Outcome, Progress
from lockstep.workloads.launch.mpirun.ranks import MpirunRanks, RemoteRank
from lockstep.workloads.launch.ring_state import RingState
from lockstep.workloads.spec import Layout, RunSpec

SPEC = RunSpec("run", "gpt", Layout(2, 1, 2), 10, 0, hang_timeout=1.0)
KILLED = int(signal.SIGKILL)
Played = Callable[..., MpirunRanks]


def told(steps: int, *, waits: bool = True, age: float = 0.1) -> RingState:
    return RingState(steps, 2.5, steps, waits, age)


def line(rank: int, told: RingState | None = None, status: int | None = None, **more: str) -> str:
    # On a host that is not this one: its process ids mean nothing here.
    return Report(rank, "elsewhere", 100 + rank, status, told=told, **more).line()


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    """An mpirun that writes lines, and then ends with a code or (None) goes on."""
    monkeypatch.setattr(watching, "AFTERMATH_SECONDS", 0.0)
    started: list[subprocess.Popen[bytes]] = []

    def play(*lines: str, code: int | None = None, error: str = "") -> MpirunRanks:
        program = (
            f"import sys, time; sys.stderr.write({error!r}); sys.stdout.write({''.join(lines)!r});"
            f" sys.stdout.flush(); {'time.sleep(60)' if code is None else f'sys.exit({code})'}"
        )
        log = tmp_path / "mpirun.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=file,
                process_group=0,
            )  # fmt: skip
        started.append(process)
        return MpirunRanks(SPEC, process, log)

    yield play
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()  # of ranks that all ended well their launcher does it


class _InterruptedOnce:
    """Ctrl-C while mpirun is waited for; then mpirun does not end."""

    asked = 0

    def __call__(self, seconds: float) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise KeyboardInterrupt
        return False


def ended(ranks: MpirunRanks) -> tuple[Outcome, list[Progress]]:
    seen: list[Progress] = []
    return ranks.wait(seen.append), seen


def test_mpirun_is_told_once_to_end_for_twice_it_leaves_its_ranks_behind(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = played(line(0, told(1)))
    sent: list[int] = []
    monkeypatch.setattr(ranks.process, "terminate", lambda: sent.append(1))
    monkeypatch.setattr(MpirunRanks, "_wait", interrupted_once := _InterruptedOnce())
    with pytest.raises(KeyboardInterrupt):
        ranks.end()
    ranks.end()

    assert [1] == sent
    assert 2 == interrupted_once.asked
    assert -KILLED == ranks.process.returncode


def test_ranks_that_all_end_well_are_finished(played: Played) -> None:
    ranks = played(line(0, told(4)), line(1, told(10), 0), line(0, told(10), 0), code=0)

    assert Outcome(Ending.FINISHED) == ended(ranks)[0]
    ranks.end()
    assert 0 == ranks.process.returncode


def test_the_crashed_rank_is_named_by_waitpid_of_its_keeper(played: Played) -> None:
    ranks = played(
        line(0, told(4), 75 << 8, last="rank 0: lost"), line(1, told(4), KILLED), "noise\n"
    )

    outcome, _ = ended(ranks)

    assert (Ending.CRASH, (1,)) == (outcome.ending, outcome.ranks)
    assert "killed by SIGKILL" == outcome.reason
    assert [(0, 75), (1, -KILLED)] == [(one.rank, one.code) for one in outcome.exits]
    assert ranks.process.returncode is not None


def test_a_rank_that_failed_tells_its_last_line(played: Played) -> None:
    outcome, _ = ended(played(line(0, told(4)), line(1, told(4), 1 << 8, last="Error: no room")))

    assert "exited with code 1: Error: no room" == outcome.reason


def test_a_hang_names_the_rank_that_is_not_where_the_others_wait(played: Played) -> None:
    outcome, seen = ended(played(line(0, told(4)), line(1, told(4, waits=False))))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert Progress(4, 10, 2.5) == seen[-1]


def test_the_heartbeat_of_a_rank_of_which_nothing_comes_any_more_grows_old() -> None:
    silent = RemoteRank(0, lambda: None, parsed(line(0, told(4, age=0.5))), monotonic() - 7.0)
    known = silent.ring_state()

    assert known is not None
    assert 7.5 == pytest.approx(known.heartbeat_age, abs=0.5)


def test_a_refusal_is_told_as_it_is_and_ends_the_run(played: Played) -> None:
    ranks = played(line(0, refused="the 2 ranks are on 1 host (a) and 2 were asked for"))

    with pytest.raises(
        LaunchError, match=r"^the 2 ranks are on 1 host \(a\) and 2 were asked for$"
    ):
        ended(ranks)
    assert ranks.process.returncode is not None


def test_an_mpirun_that_starts_nothing_is_told_in_its_own_words(played: Played) -> None:
    frame = "-" * 70
    ranks = played(code=3, error=f"{frame}\nssh: cannot reach node-b\n{frame}\n")

    with pytest.raises(LaunchError) as refused:
        ended(ranks)

    assert str(refused.value).startswith("no rank was started: python")
    assert str(refused.value).endswith("ended with code 3: ssh: cannot reach node-b")


def test_an_mpirun_that_dies_beneath_its_ranks_is_a_crash_of_nobody(played: Played) -> None:
    outcome, _ = ended(played(line(0, told(4)), line(1, told(4)), code=9))

    assert (Ending.CRASH, ()) == (outcome.ending, outcome.ranks)
    assert "ended with code 9" in outcome.reason


def test_what_is_no_report_is_kept_in_the_log(played: Played) -> None:
    ranks = played("hello\n", line(0, told(1), 0), line(1, told(1), 0), code=0)
    ended(ranks)

    assert "hello\n" == ranks.log.read_text()


def test_a_report_comes_through_as_it_was_with_nan_too() -> None:
    report = Report(3, "a", 7, None, "x", RingState(5, math.nan, 9, True, 0.2))
    heard = parsed(f"[1,3]<stdout>: {report.line()}")

    assert heard is not None
    assert heard.told is not None
    assert math.isnan(heard.told.loss)
    assert (3, "a", 7, None, "x", 5, 9) == (
        heard.rank, heard.host, heard.pid, heard.status, heard.last, heard.told.steps,
        heard.told.arrived,
    )  # fmt: skip


@given(st.integers(0, 200), st.text(max_size=10))
def test_a_torn_report_is_none(cut: int, rest: str) -> None:
    whole = line(1, told(3), 0, last="end").strip()

    assert parsed(whole[: min(cut, len(whole) - 1)] + rest.replace("}", "")) is None
