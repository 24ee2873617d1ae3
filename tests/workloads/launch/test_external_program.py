"""Somebody else's programs as ranks: how they are started, watched and ended, whole families."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import RANK_STATES, RankState
from lockstep.workloads.launch.external_program.launcher import (
    CommandError,
    ExternalProgramLauncher,
    check,
)
from lockstep.workloads.launch.external_program.patterns import PatternError
from lockstep.workloads.launch.external_program.programs import Missing
from lockstep.workloads.launch.launcher import Ending
from lockstep.workloads.sdk.holder import Means
from lockstep.workloads.spec import Layout, RunSpec

pytestmark = pytest.mark.distributed

SPEC = RunSpec("exec-1", "exec", Layout(2, 1, 2), steps=0, seed=0, pace=False, hang_timeout=1.0)
LOOP = "for i in $(seq 1 {steps}); do echo step $i; sleep 0.1; done; "


@pytest.fixture
def start(tmp_path):
    started = []

    def launch(script, patience=1.0, **settings):
        launcher = ExternalProgramLauncher(("bash", "-c", script), **settings)
        programs = launcher.launch(
            replace(SPEC, hang_timeout=patience), tmp_path / "rings", tmp_path / "logs"
        )
        started.append(programs)
        return programs

    yield launch
    for programs in started:
        programs.end()


def wait(programs):
    seen = []
    return programs.wait(seen.append), seen


def eventually(happens: Callable[[], bool]) -> bool:
    deadline = monotonic() + 60
    while not happens() and monotonic() < deadline:
        sleep(0.05)
    return happens()


def alive(name: str) -> list[int]:
    """Processes with this word on their command line, other than ours."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if name.encode() in words:
                found.append(int(entry.name))
    return found


def test_every_rank_is_started_with_its_own_environment_and_log(start, tmp_path):
    outcome, _ = wait(start("echo rank $RANK of $WORLD_SIZE on $LOCKSTEP_NODE", patience=60.0))

    assert Ending.FINISHED is outcome.ending
    assert ["rank 0 of 2 on node-0\n", "rank 1 of 2 on node-1\n"] == [
        (tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in range(2)
    ]


def test_steps_come_from_the_log_where_nothing_else_tells_them(start):
    programs = start(LOOP.format(steps=8))
    outcome, seen = wait(programs)

    assert Ending.FINISHED is outcome.ending
    assert {0: Means.LOG, 1: Means.LOG} == programs.means
    assert not programs.own_time_known
    assert seen[-1].step >= 7


def test_how_steps_are_known_is_told_while_they_come_and_outlives_an_interruption(start):
    programs = start(LOOP.format(steps=600), patience=60.0)
    told = []

    def interrupt(progress):
        told.append(dict(programs.means))
        if len(programs.means) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        programs.wait(interrupt)
    programs.end()

    assert told[-1] == programs.means == {0: Means.LOG, 1: Means.LOG}


def test_a_program_that_shows_no_step_has_no_means(start):
    programs = start("echo hello")
    wait(programs)

    assert {} == programs.means


def test_the_rank_that_fails_first_is_named_with_its_last_line(start):
    outcome, _ = wait(start("[ $RANK = 1 ] && echo no such dataset && exit 3; exec sleep 60"))

    assert (Ending.CRASH, (1,)) == (outcome.ending, outcome.ranks)
    assert "exited with code 3: no such dataset" == outcome.reason


def test_a_rank_that_exits_with_a_code_is_not_recorded_as_finished(start, tmp_path):
    program = "import lockstep, sys; lockstep.recorder().step_ended(); sys.exit(3)"
    outcome, _ = wait(start(f"exec {sys.executable} -c '{program}'"))
    rings = [(tmp_path / f"rings/node-{rank}/rank-{rank}.ring").read_bytes() for rank in range(2)]

    assert (Ending.CRASH, (0, 1)) == (outcome.ending, tuple(sorted(outcome.ranks)))
    assert [RankState.FAILED] * 2 == [RANK_STATES[ring.Header(page).state] for page in rings]


def test_a_rank_that_raised_and_does_not_end_is_named_in_a_hang(start):
    program = (
        "import os, threading, time\nif os.environ['RANK'] == '1':\n"
        "    threading.Thread(target=time.sleep, args=(60,)).start(); raise KeyError('lr')\n"
        "time.sleep(60)"
    )
    counts = "echo step 1; sleep 0.2; echo step 2; sleep 0.2; echo step 3; sleep 0.2; echo step 4; "
    outcome, _ = wait(start(f'{counts}exec {sys.executable} -c "{program}"'))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert "rank 1 raised KeyError: 'lr', and its process has not ended" in outcome.reason


def test_an_exception_that_every_rank_handled_as_it_started_hides_nobody(start):
    handled = (
        "printf 'Traceback (most recent call last):\\nImportError: no apex\\n' >&2; sleep 0.6; "
    )
    ends = "[ $RANK = 1 ] && kill -KILL $$; exec sleep 60"
    outcome, _ = wait(start(handled + LOOP.format(steps=4) + ends))

    assert (Ending.CRASH, (1,), ()) == (outcome.ending, outcome.ranks, outcome.raised)
    assert "killed by SIGKILL" == outcome.reason


def test_a_rank_that_a_signal_killed_is_named_with_the_signal(start):
    outcome, _ = wait(start("[ $RANK = 0 ] && kill -SEGV $$; exec sleep 60"))

    assert (Ending.CRASH, (0,)) == (outcome.ending, outcome.ranks)
    assert "killed by SIGSEGV" == outcome.reason


def test_a_hang_is_explained_while_all_ranks_are_there(start):
    programs = []

    def explain():
        assert all(Path(f"/proc/{pid}").exists() for pid in programs[0].pids.values())
        return Missing((1,), "rank 1 is missing from all_reduce 7")

    programs.append(start(LOOP.format(steps=5) + "exec sleep 60", explain=explain))
    outcome, _ = wait(programs[0])

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert "; rank 1 is missing from all_reduce 7; rank 1 last wrote: step 5" in outcome.reason


def test_a_program_of_which_no_step_is_seen_goes_on_and_is_told_so(start):
    programs = start("echo step: 1172.13; sleep 3; echo step: 1169.02")
    outcome, seen = wait(programs)

    assert Ending.FINISHED is outcome.ending
    assert {} == programs.means
    assert seen
    assert all(each.unseen_seconds >= 1.0 for each in seen)


def test_before_any_step_a_collective_that_ranks_wait_in_for_long_is_a_hang(start):
    asked = []

    def explain():
        asked.append(1)
        return Missing((1,), "rank 1 is missing from broadcast 1", 0.6 * len(asked))

    outcome, _ = wait(start("exec sleep 60", explain=explain))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert 2 == len(asked)  # at first the others had only just begun to wait
    assert outcome.reason.startswith("no rank completed a step for 1 s; rank 1 is missing")


def test_a_program_that_begins_within_the_time_out_is_no_hang(start):
    outcome, _ = wait(start("sleep 2; " + LOOP.format(steps=5), patience=10.0))

    assert Ending.FINISHED is outcome.ending


def test_the_rank_with_the_fewest_steps_in_its_log_is_the_one_that_hangs(start):
    script = "[ $RANK = 1 ] && last=4 || last=8; for i in $(seq 1 $last); do echo step $i;"
    outcome, _ = wait(start(script + " sleep 0.1; done; exec sleep 60", patience=2.0))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert outcome.reason.endswith("; rank 1 last wrote: step 4")


def test_nobody_is_named_where_one_rank_alone_writes_a_log(start):
    script = "[ $RANK = 0 ] && { " + LOOP.format(steps=5) + "}; exec sleep 60"
    outcome, _ = wait(start(script))

    assert (Ending.HANG, ()) == (outcome.ending, outcome.ranks)


def test_a_rank_that_stands_still_is_the_one_that_hangs(start):
    script = LOOP.format(steps=5) + "[ $RANK = 1 ] && kill -STOP $$; sleep 60"
    outcome, _ = wait(start(script, patience=5.0))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)


def test_what_a_program_started_ends_with_it_also_in_sessions_of_its_own(start):
    wait(start("setsid sleep 31415 & setsid bash -c 'trap \"\" TERM; sleep 31416; sleep 31416' &"))

    assert [] == alive("31415") + alive("31416")


def test_end_leaves_nothing_of_programs_that_will_not_end(start):
    programs = start("trap '' TERM INT; setsid sleep 27182 & sleep 27183; sleep 27183")
    assert eventually(lambda: len(alive("27182")) == 2)
    programs.end()

    assert [] == alive("27182") + alive("27183")
    assert not any(Path(f"/proc/{pid}").exists() for pid in programs.pids.values())


LAUNCHER = """
import sys
from pathlib import Path
from tests.workloads.launch.test_external_program import SPEC
from lockstep.workloads.launch.external_program.launcher import ExternalProgramLauncher
place = Path(sys.argv[1])
script = "setsid sleep 16180 & exec sleep 16181"
launcher = ExternalProgramLauncher(("bash", "-c", script))
programs = launcher.launch(SPEC, place / "rings", place / "logs")
programs.wait(print)
"""


def test_a_killed_launcher_leaves_nothing(tmp_path):
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER, str(tmp_path)])
    try:
        assert eventually(lambda: len(alive("16180") + alive("16181")) == 4)
    finally:
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()

    assert eventually(lambda: not alive("16180") + alive("16181"))


@pytest.mark.parametrize(
    ("command", "sentence"),
    [((), "needs a command after --"), (("/no/such", "x"), "/no/such is no program")],
)
def test_a_command_that_cannot_be_started_is_refused_before_anything_is(command, sentence):
    with pytest.raises(CommandError, match=sentence):
        check(command, None)


def test_an_expression_that_cannot_find_steps_is_refused_too():
    with pytest.raises(PatternError, match="no group named step"):
        check(("bash",), "x")
