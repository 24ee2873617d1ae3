import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.collector.sources.host.identity import Identity
from lockstep.collector.sources.host.own_process import OwnProcessStat
from lockstep.collector.sources.host.procfs import (
    Procfs,
    cpu_count,
    cpu_seconds,
    load_average,
    memory_bytes,
    pressure_totals,
)

PROPERTY = settings(
    # The fixture's files are written anew by each example; a shared machine has slow moments.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=50,
    deadline=None,
)
FILES = ("stat", "loadavg", "meminfo", "pressure/cpu")


@pytest.fixture
def procfs(machine):
    machine.host()
    return Procfs(machine.proc)


def test_every_number_is_in_base_units(procfs):
    host = procfs.read()

    assert host.cpu_seconds == (10.0, 0.2, 3.0, 400.0, 0.5, 0.06, 0.7, 0.08)
    assert host.cpu_count == 2
    assert host.load == (0.5, 1.25, 2.0)
    assert host.memory is not None
    assert (host.memory.total, host.memory.available) == (16_384_000_000, 8_192_000_000)
    assert dict(host.memory.parts) == {
        "free": 1_024_000_000, "cached": 2_048_000_000, "shared": 512_000_000, "dirty": 307_200,
        "writeback": 40_960, "swap": 0, "swap_free": 0,
    }  # fmt: skip
    assert host.pressure[:2] == (("cpu", "some", 1.5), ("cpu", "full", 0.5))
    assert host.rejected == ()


def test_a_kernel_without_pressure_files_is_no_error(procfs, machine):
    for resource in ("cpu", "io", "memory"):
        (machine.proc / "pressure" / resource).unlink()

    host = procfs.read()

    assert host.pressure == ()
    assert host.rejected == ()


@pytest.mark.sweep
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content",
    ["", "\n", "cpu", "some words\n", "9" * 2_000_000, "cpu  1 2 3 x 5 6 7 8\n", "\0\n" * 9],
)
def test_a_malformed_file_is_counted_and_the_rest_stands(procfs, machine, name, content):
    good = procfs.read()
    (machine.proc / name).write_text(content)

    host = procfs.read()

    left = [
        value
        for value, before in zip(
            (host.cpu_seconds, host.load, host.memory, host.pressure),
            (good.cpu_seconds, good.load, good.memory, good.pressure),
            strict=True,
        )
        if value == before
    ]
    assert len(left) == 3
    assert [one.reason for one in host.rejected] == ["content"]


def test_bytes_that_are_not_text_are_counted(procfs, machine):
    (machine.proc / "loadavg").write_bytes(b"\xff 0.1 0.2 0.3\n")

    host = procfs.read()

    assert host.load is None
    assert [one.reason for one in host.rejected] == ["content"]


def test_a_file_that_is_replaced_is_read_anew_and_one_that_is_removed_is_not_told(procfs, machine):
    procfs.read()
    path = machine.proc / "loadavg"
    machine.file(machine.proc / "new", "3.00 2.00 1.00 1/2 3\n").replace(path)
    replaced = procfs.read()
    path.unlink()
    removed = procfs.read()
    machine.file(path, "4.00 2.00 1.00 1/2 3\n")

    assert replaced.load == (3.0, 2.0, 1.0)
    assert (removed.load, [one.reason for one in removed.rejected]) == (None, ["missing"])
    assert procfs.read().load == (4.0, 2.0, 1.0)


def test_a_file_that_is_a_link_is_refused(procfs, machine):
    path = machine.proc / "loadavg"
    path.rename(machine.proc / "elsewhere")
    path.symlink_to("elsewhere")

    assert [one.reason for one in procfs.read().rejected] == ["symlink"]


def test_what_is_open_is_read_from_its_beginning_each_time(procfs, machine):
    first = procfs.read()
    machine.file(machine.proc / "loadavg", "9.00 8.00 7.00 1/2 3\n")

    assert (first.load, procfs.read().load) == ((0.5, 1.25, 2.0), (9.0, 8.0, 7.0))


def test_files_that_were_opened_are_closed(machine):
    machine.host()
    Procfs(machine.proc).read()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        Procfs(machine.proc).read()

    assert before >= len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("name", "parse"),
    [
        ("stat", cpu_seconds),
        ("stat", cpu_count),
        ("loadavg", load_average),
        ("meminfo", memory_bytes),
        ("pressure/cpu", pressure_totals),
    ],
)
@settings(PROPERTY)
@given(data=st.data())
def test_a_cut_file_gives_the_right_number_or_none(procfs, machine, name, parse, data):
    path = machine.proc / name
    text = path.read_text()
    right = parse(text.encode())

    path.write_text(text[: data.draw(st.integers(0, len(text)))])
    host = procfs.read()
    path.write_text(text)

    kinds = {
        cpu_seconds: host.cpu_seconds,
        cpu_count: host.cpu_count,
        load_average: host.load,
        memory_bytes: host.memory,
    }
    if parse is memory_bytes and host.memory is not None:
        assert (right.total, right.available) == (host.memory.total, host.memory.available)
        assert set(host.memory.parts) <= set(right.parts)
    elif parse in kinds:
        assert kinds[parse] in (None, right)
    else:
        assert {(s, v) for r, s, v in host.pressure if r == "cpu"} <= set(right)


@settings(PROPERTY)
@given(name=st.sampled_from(FILES), content=st.binary(max_size=300))
def test_noise_never_raises(procfs, machine, name, content):
    (machine.proc / name).write_bytes(content)

    procfs.read()


def test_the_machine_has_names(machine):
    machine.host()

    assert Identity(machine.proc, None).read().hostname == "gpu-07"
    assert Identity(machine.proc, "node-3").read().hostname == "node-3"
    assert Identity(machine.proc, "node-3").read().emulated


def test_own_cost_is_read_past_a_hostile_command_name(machine):
    machine.host()
    path = machine.proc / "self/stat"
    path.write_text(path.read_text().replace("(python)", "(a ) b)"))

    own = OwnProcessStat(machine.proc).read()

    assert own.cpu_seconds == 3.0
    assert own.resident_bytes == 2048 * 4096


def test_own_cost_holds_that_of_children_that_live_and_that_ended(machine):
    machine.host()
    machine.process(77)
    own = "42 (python) S 1 42 42 0 -1 4194304 900 0 0 0 250 50 30 20 20 0 3 0 500 1000000 2048 0\n"
    machine.file(machine.proc / "self/stat", own)
    machine.file(machine.proc / "self/task/42/children", "77 78 ")

    reading = OwnProcessStat(machine.proc).read()

    assert (3.0 + 0.5 + 3.0) == reading.cpu_seconds
    assert (2048 + 1000) * 4096 == reading.resident_bytes


def test_own_cost_of_this_process_is_what_it_is():
    holding = "held = b'x' * (32 << 20); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline()
        alone = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        own = OwnProcessStat(Path("/proc")).read()
        child.communicate(b"\n")

    assert own.resident_bytes > alone + (16 << 20)
    assert own.cpu_seconds > 0
