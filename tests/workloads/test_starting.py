"""What a rank tells of its start."""

import json
import subprocess
import sys
import time

from lockstep.collector.contract.words import StartPart
from lockstep.workloads.measure.process import process_began_ns
from lockstep.workloads.measure.starting import MOST_SPANS, Starting


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
