"""Stacks on a signal: offered only where the environment asks, and the program does not use it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from lockstep.collector.contract.stacks import SIGNAL_VARIABLE
from lockstep.collector.contract.words import StartPart
from lockstep.workloads.measure.heartbeat import stacks_on_signal
from lockstep.workloads.measure.process import process_began_ns
from lockstep.workloads.measure.starting import MOST_SPANS, Starting

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from lockstep.workloads.measure.heartbeat import stacks_on_signal
folder = Path(sys.argv[1])
{before}
offer = stacks_on_signal(folder, "run", 3)
there = [path.name for path in folder.iterdir()]
{after}
print(there, offer is not None, [path.name for path in folder.iterdir()])
"""


def ran(folder, before: str = "", after: str = "", name: str = "USR2"):
    """What a program says: files while it offers, whether it does, and files at its end."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before, after=after), str(folder)],
        env={**os.environ, SIGNAL_VARIABLE: name}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_the_variable_nothing_is_offered(tmp_path):
    before = signal.getsignal(signal.SIGUSR2)

    assert stacks_on_signal(tmp_path, "run", 3, {}) is None
    assert [] == list(tmp_path.iterdir())
    assert before == signal.getsignal(signal.SIGUSR2)


@pytest.mark.parametrize("name", ["KILL", "TERM", "12", "nonsense"])
def test_another_signal_is_refused_and_the_rank_goes_on(tmp_path, name, capsys):
    assert stacks_on_signal(tmp_path, "run", 3, {SIGNAL_VARIABLE: name}) is None
    assert f"{name!r} is none of SIGUSR1, SIGUSR2" in capsys.readouterr().err


def test_an_offer_is_there_while_the_program_runs_and_gone_after_it(tmp_path):
    told = ran(tmp_path)

    assert "['stacks-run-3'] True ['stacks-run-3']" == told.stdout.strip()
    assert [] == list(tmp_path.iterdir())


def test_a_program_that_uses_the_signal_keeps_it(tmp_path):
    told = ran(tmp_path, "signal.signal(signal.SIGUSR2, lambda *_: print('theirs'))",
               "os.kill(os.getpid(), signal.SIGUSR2)")  # fmt: skip

    assert ["theirs", "[] False []"] == told.stdout.splitlines()
    assert "the program handles USR2 itself" in told.stderr


def test_a_program_that_takes_the_signal_later_has_it(tmp_path):
    told = ran(tmp_path, after="signal.signal(signal.SIGUSR2, lambda *_: print('theirs'))\n"
               "offer()\nos.kill(os.getpid(), signal.SIGUSR2)")  # fmt: skip

    assert ["theirs", "['stacks-run-3'] True []"] == told.stdout.splitlines()


def test_answers_do_not_fill_the_folder(tmp_path):
    told = ran(tmp_path, after="from lockstep.workloads.measure import heartbeat\n"
               "heartbeat.MAX_BYTES = 100\n"
               "for _ in range(9):\n    os.kill(os.getpid(), signal.SIGUSR2)\n    offer()\n"
               "assert (folder / there[0]).stat().st_size <= 100")  # fmt: skip

    assert 0 == told.returncode


def test_a_forked_child_takes_nothing_away(tmp_path):
    told = ran(tmp_path, after="pid = os.fork()\nif not pid:\n"
               "    offer.withdraw()\n    os._exit(0)\n"
               "os.waitpid(pid, 0)")  # fmt: skip

    assert "['stacks-run-3'] True ['stacks-run-3']" == told.stdout.strip()


def test_a_folder_that_cannot_be_written_costs_the_offer_only(tmp_path, capsys):
    missing = tmp_path / "nowhere"

    assert stacks_on_signal(missing, "run", 3, {SIGNAL_VARIABLE: "USR2"}) is None
    assert "no stacks on a signal" in capsys.readouterr().err


# What a rank tells of its start.


def _told(folder, rank=3):
    return json.loads((folder / f"rank-{rank}.json").read_text())


def test_the_process_began_before_now_and_not_long_ago():
    began = process_began_ns()

    assert began is not None
    assert 0 < time.monotonic_ns() - began < 86_400e9


def test_parts_follow_each_other_and_loading_goes_on(tmp_path):
    starting = Starting(tmp_path, 3, begun_ns=time.monotonic_ns() - 2_000_000_000)
    starting.measures(StartPart.COMPILE)
    starting.joins()
    waiting = _told(tmp_path)
    starting.joined()
    told = _told(tmp_path)

    assert waiting["rendezvous"][0][1] is None
    ((begun, ready),), ((since, met),), ((loads, ends),) = (
        told[part] for part in ("program", "rendezvous", "load")
    )
    assert begun < ready == since <= met == loads
    assert abs(time.time() - met) < 60
    assert ends is None
    assert told["compile"] == []


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    (tmp_path / "file").write_text("")
    starting = Starting(tmp_path / "file" / "starting", 0)
    starting.joins()
    starting.joined()

    assert (tmp_path / "file").read_text() == ""


def test_a_program_that_always_compiles_tells_of_its_first_ones(tmp_path):
    starting = Starting(tmp_path, 3, begun_ns=0)
    for moment in range(MOST_SPANS + 50):
        starting.add(StartPart.COMPILE, moment, moment + 1)
    starting.write()

    assert starting.full
    assert len(_told(tmp_path)["compile"]) == MOST_SPANS


def test_a_meeting_that_failed_is_over_and_the_next_one_is_told_apart(tmp_path):
    starting = Starting(tmp_path, 3, begun_ns=0)
    starting.joins()
    starting.parted()
    alone = _told(tmp_path)
    starting.joins()
    starting.joined()
    told = _told(tmp_path)

    assert alone["rendezvous"][0][1] == alone["program"][1][0]
    assert alone["program"][1][1] is None
    (_, first_end), (second, met) = told["rendezvous"]
    assert first_end <= second <= met
    assert told["program"][1] == [first_end, second]
    assert told["load"] == [[met, None]]


def test_where_no_clock_counts_from_the_boot_the_process_began_nobody_knows_when():
    code = (
        "import time; del time.CLOCK_BOOTTIME\n"
        "from lockstep.workloads.measure.process import process_began_ns; print(process_began_ns())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "None\n"
