"""NCCL Inspector's files as they grow, are cut off, replaced, flooded and locked away."""

import json
import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from lockstep.collector.contract import metrics as m
from lockstep.collector.exporter.page import render
from lockstep.collector.readings.source import RankProcess
from lockstep.collector.samples import nccl
from lockstep.collector.sources.nccl.inspector import files as folder
from lockstep.collector.sources.nccl.inspector import files as tail
from lockstep.collector.sources.nccl.inspector.files import Tail
from lockstep.collector.sources.nccl.inspector.source import LOOK_SECONDS, MAX_FILES, NcclInspector

PID = 100


def line(number: int = 0, group: str = "dp", us: int = 100, identity: str = "0x1") -> str:
    """A MiB through eight ranks; older Inspector, so that there are no bandwidths to agree on."""
    return (
        f'{{"header":{{"id":"{identity}","comm_name":"{group}","rank":2,"n_ranks":8,"nnodes":1}},'
        '"metadata":{"inspector_output_format_version":"v4.0","dump_timestamp_us":1748030377748202,'
        f'"hostname":"h","pid":{PID}}},"coll_perf":{{"coll":"AllReduce","coll_sn":{number},'
        f'"coll_msg_size_bytes":1048576,"coll_exec_time_us":{us}}}}}\n'
    )


@pytest.fixture
def logs(tmp_path):
    path = tmp_path / "inspector"
    path.mkdir()
    return path


@pytest.fixture
def source(machine, logs):
    """`source(*folders, ranks, history)`: without history all files came since it began."""
    machine.process(PID)

    def start(*folders, ranks=(), history=False, **more):
        one = NcclInspector(
            folders or [logs], machine.proc, machine.clock, lambda: list(ranks), **more
        )
        if not history:
            one._looked_at = dict.fromkeys(folders or [logs], 0.0)
        return one

    return start


def read(one: NcclInspector, *, look: bool = True):
    if look:
        one._clock.sleep(LOOK_SECONDS)
    assert one.available()
    return one.read()


def counted(reading) -> int:
    return sum(sum(one.counts) for one in reading.operations)


def reasons(reading) -> Counter:
    return Counter(one.reason for one in reading.rejected)


def log_of(logs, pid: int = PID, text: str = ""):
    path = logs / f"host-pid{pid}.log"
    path.write_text(text)
    return path


def add(path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_without_a_file_there_is_nothing_and_it_is_said_why(source, tmp_path):
    one = source(tmp_path / "none")

    assert not one.available()
    assert f"no <host>-pid<pid>.log in {tmp_path / 'none'}; " in one.why_not()
    assert "NCCL_INSPECTOR_DUMP_DIR" in one.why_not()


def test_files_are_added_up_as_they_grow(source, logs):
    path = log_of(logs, text=line(1) + line(2, us=200))
    one = source()
    first = read(one)
    add(path, line(3, us=300))
    second = read(one, look=False)

    assert (2, 3) == (counted(first), counted(second))
    assert pytest.approx(600e-6) == second.operations[0].seconds
    assert (0, 0, ()) == (second.gaps, second.dropped, second.rejected)


def test_a_part_of_a_line_waits_for_the_rest(source, logs):
    whole = line(1)
    path = log_of(logs)
    one = source()
    read(one)
    for character in whole:
        assert 0 == counted(read(one, look=False))
        add(path, character)

    assert 1 == counted(read(one, look=False))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_chunking_gives_the_same_counts(tmp_path_factory, data):
    text = "".join(line(n, us=100 + n) if n % 3 else f"noise {n}\n" for n in range(12))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    path = tmp_path_factory.mktemp("logs") / "h-pid1.log"
    path.touch()
    one, read = Tail(path), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        add(path, text[start:end])
        read += one.read().decode()

    assert text == read
    assert (0, 0, 0) == (one.dropped, one.too_long, one.lost)


def test_a_file_that_is_cut_off_begins_anew(source, logs):
    path = log_of(logs, text=line(1) + line(2))
    one = source()
    read(one)
    path.write_text(line(3))

    assert 3 == counted(read(one, look=False))


def test_a_file_that_was_cut_off_and_grew_past_where_we_were_begins_anew(source, logs):
    path = log_of(logs, text=line(1, us=111))
    one = source()
    read(one)
    path.write_text("".join(line(n, us=222) for n in range(4)))

    assert 5 == counted(read(one, look=False))


def test_a_file_in_place_of_another_is_read_from_its_start(source, logs):
    path = log_of(logs, text=line(1) + line(2)[:50])
    one = source()
    read(one)
    path.rename(logs / "host-pid100.log.1")
    log_of(logs, text=line(7, identity="0x2") + line(8, identity="0x2"))
    reading = read(one, look=False)

    assert (3, {"lost": 1}, 0) == (counted(reading), reasons(reading), reading.gaps)


def test_a_file_that_is_removed_leaves_its_counts_and_no_error(source, logs):
    path = log_of(logs, text=line(1))
    log_of(logs, 101, line(1))
    one = source()
    read(one)
    path.unlink()
    reading = read(one)

    assert (2, ()) == (counted(reading), reading.rejected)


def test_numbers_that_were_not_written_are_counted_and_ours_are_not(source, logs):
    path = log_of(logs, text=line(1) + line(5))
    one = source()
    first = read(one)
    path.write_text(line(100))
    second = read(one, look=False)

    assert (3, 3 + 94) == (first.gaps, second.gaps)


def write_later(one, path, text: str = "") -> None:
    """Add to a file some seconds after the source last looked at its folder."""
    add(path, text)
    os.utime(path, (one._clock.wall() + 1, one._clock.wall() + 1))


@pytest.mark.parametrize("pid", [PID, 555])
def test_what_was_written_before_the_first_look_is_history_and_what_is_added_is_not(
    source, logs, pid
):
    path = log_of(logs, pid, line(1))
    one = source(history=True)
    first = read(one)
    add(path, line(2))
    write_later(one, logs / "host-pid556.log", line(1))
    second = read(one)

    assert (0, 2) == (counted(first), counted(second))


def restarted(source, before, folder=None):
    """A source with the memory of the one before, as it comes out of the state folder."""
    one = source(history=True)
    one.recall(json.loads(json.dumps(before.memory())))
    return one


def test_after_a_restart_each_line_is_counted_once(source, logs):
    path = log_of(logs, text=line(1) + line(2)[:40])
    before = source()
    read(before)
    before.close()
    add(path, line(2)[40:] + line(3))
    log_of(logs, 101, line(1))  # came while nobody looked, and nobody can say when
    one = restarted(source, before)

    assert (1, 2) == (counted(before.read()) - 2, counted(read(one)))


def test_after_a_restart_another_file_of_that_name_is_read_from_its_start(source, logs):
    path = log_of(logs, text=line(1) * 3)
    before = source()
    read(before)
    before.close()
    path.rename(logs / "old")
    log_of(logs, text=line(1) * 2)

    assert 2 == counted(read(restarted(source, before)))


def test_who_was_killed_remembers_nothing_and_counts_nothing_twice(source, logs):
    path = log_of(logs, text=line(1))
    before = source()
    read(before)
    one = restarted(source, before)
    first = read(one)
    add(path, line(2))

    assert (0, 1) == (counted(first), counted(read(one, look=False)))


@pytest.mark.parametrize(
    "tree",
    [[], {"/a": []}, {"/a": 7}, {"/a": [1, 2, 3, "zz", False]}, {"/a": [1, 2, 300, "", False]},
     {"/a": [1, 2, -1, "", False]}, {"/a": [None, 2, 0, "", False]}, {"/a": [1, 2, 0, 7, False]}],
)  # fmt: skip
def test_what_is_no_memory_is_refused(source, tree):
    with pytest.raises(ValueError):  # noqa: PT011 - what the sampler counts
        source().recall(tree)


def test_a_file_that_could_not_be_read_for_a_while_is_not_counted_twice(source, logs, monkeypatch):
    path = log_of(logs, text=line(1))
    one = source()
    read(one)
    path.rename(logs / "kept")
    path.symlink_to(logs / "kept")
    refused = read(one)
    path.unlink()
    (logs / "kept").rename(path)
    write_later(one, path, line(2))
    reading = read(one)

    assert ({"symlink": 1}, 2) == (reasons(refused), counted(reading))


def test_a_file_that_gave_way_to_others_and_comes_back_is_not_counted_twice(
    source, logs, monkeypatch
):
    monkeypatch.setattr("lockstep.collector.sources.nccl.inspector.source.MAX_FILES", 1)
    path = log_of(logs, 555, line(1))
    one = source()
    assert 1 == counted(read(one))
    write_later(one, logs / "host-pid556.log", line(2))
    assert 2 == counted(read(one))
    write_later(one, path, line(3))

    assert 3 == counted(read(one))


def test_history_that_ends_inside_a_line_costs_that_line(source, logs):
    whole = line(2)
    path = log_of(logs, 555, line(1) + whole[:60])
    one = source(history=True)
    read(one)
    add(path, whole[60:] + line(3))
    reading = read(one, look=False)

    assert (1, ()) == (counted(reading), reading.rejected)


def test_a_flood_is_passed_over_and_its_lines_are_counted(source, logs, monkeypatch):
    monkeypatch.setattr(tail, "MAX_LAG", 10_000)
    monkeypatch.setattr(tail, "CHUNK", 4_000)
    path = log_of(logs)
    one = source()
    read(one)
    add(path, "".join(line(n) for n in range(1000)))
    first = read(one, look=False)
    second = read(one, look=False)

    assert 0 == counted(first)
    assert 1000 == second.dropped + counted(second)
    assert 0 < counted(second) <= 4_000 // len(line())
    assert 0 == second.gaps


def test_a_reading_takes_bounded_time_and_the_rest_waits(source, logs, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", 4_000)
    ticks = iter(0.1 * n for n in range(1000))
    log_of(logs, text="".join(line(n) for n in range(100)))
    one = source(cpu_time=lambda: next(ticks))
    first = counted(read(one))
    for _ in range(40):
        last = counted(read(one, look=False))

    assert 0 < first < 100
    assert 100 == last


def test_a_flood_of_noise_takes_turns_and_every_line_of_it_is_counted(source, logs, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", 4_000)
    monkeypatch.setattr("lockstep.collector.sources.nccl.inspector.source.MAX_BAD", 1_000)
    log_of(logs, text="\n" * 9_000 + line(1))
    one = source()
    found = [reasons(read(one, look=False))["json"] for _ in range(3)]

    assert [4_000, 4_000, 1_000] == found


def test_no_file_keeps_the_others_from_their_turn(source, logs, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", 4_000)
    for pid in (100, 101, 102):
        log_of(logs, pid)
    ticks = iter(0.1 * n for n in range(1000))  # two parts a reading
    one = source(cpu_time=lambda: next(ticks))
    read(one)
    for pid in (100, 101, 102):
        add(logs / f"host-pid{pid}.log", "".join(line(n, f"g{pid}") for n in range(500)))
    for _ in range(3):
        reading = read(one, look=False)

    assert ["g100", "g101", "g102"] == [told.group for told in reading.operations]


def test_a_line_without_an_end_is_counted_once_and_what_follows_is_read(source, logs, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", 1_000)
    log_of(logs, text="x" * 3_500 + "\n" + line(1))
    reading = read(source())

    assert (1, {"too_long": 1}) == (counted(reading), reasons(reading))


def test_every_defect_is_counted_with_its_file(source, logs):
    log_of(logs, text="noise\n" * 3 + line(1) + line(2, us=0))
    reading = read(source())

    assert (1, {"json": 3, "time": 1}) == (counted(reading), reasons(reading))
    assert all("host-pid100.log: " in one.message for one in reading.rejected)


def test_a_link_is_refused_and_a_folder_or_fifo_too(source, logs, machine, tmp_path):
    (tmp_path / "secret").write_text(line(1))
    for pid in (100, 101, 102):
        machine.process(pid)
    (logs / "host-pid100.log").symlink_to(tmp_path / "secret")
    (logs / "host-pid101.log").mkdir()
    os.mkfifo(logs / "host-pid102.log")
    reading = read(source())

    assert (0, {"symlink": 1, "not_regular": 2}) == (counted(reading), reasons(reading))


def test_a_folder_that_cannot_be_listed_is_one_error_and_the_others_are_read(
    source, logs, tmp_path, monkeypatch
):
    locked = tmp_path / "locked"
    locked.mkdir()
    listed = os.scandir

    def scandir(path):
        if str(path) == str(locked):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(folder.os, "scandir", scandir)
    log_of(logs, text=line(1))
    alone = source(locked)

    reading = read(source(locked, logs))
    assert (1, {"permission": 1}) == (counted(reading), reasons(reading))
    assert {"permission": 1} == reasons(read(alone))
    assert {} == reasons(read(alone, look=False))


def test_of_very_many_files_the_living_are_followed_and_it_is_one_line(source, logs):
    for pid in range(1000, 1300):
        (logs / f"host-pid{pid}.log").touch()
    log_of(logs, text=line(1))
    one = source()
    reading = read(one)

    assert (1, {"too_many": 1}) == (counted(reading), reasons(reading))
    assert "301 files" in reading.rejected[0].message
    assert MAX_FILES == len(one._followed)


def test_names_beyond_what_is_looked_at_are_said(source, logs, monkeypatch):
    monkeypatch.setattr(folder, "MAX_NAMES", 2)
    for pid in (100, 101, 102):
        log_of(logs, pid)
    reading = read(source())

    assert "more than 2 files" in reading.rejected[0].message


def test_looking_through_large_folders_is_done_less_often(source, logs, machine):
    log_of(logs, text=line(1))
    one = source(ranks=[])
    one._ranks = lambda: machine.clock.sleep(3.0) or []
    read(one)
    began = machine.clock.now
    log_of(logs, 101)
    machine.process(101)
    machine.clock.sleep(5.0)
    one.available()

    assert machine.clock.now == began + 5.0
    assert 1 == len(one._followed)


def test_ranks_name_their_folder_and_their_run(source, logs, machine, tmp_path):
    for pid, named in ((100, str(logs)), (101, "relative"), (102, "")):
        machine.process(pid)
        machine.file(machine.proc / f"{pid}/environ", f"A=b\0NCCL_INSPECTOR_DUMP_DIR={named}\0")
        (machine.proc / f"{pid}/cwd").symlink_to(tmp_path)
    machine.process(103)
    (tmp_path / "relative").mkdir()
    paths = [log_of(logs, 100, line(1)), log_of(tmp_path / "relative", 101, line(1))]
    ranks = [RankProcess("gpt-1", pid - 100, pid) for pid in (100, 101, 102, 103)]
    one = source(logs / "none", ranks=ranks)
    read(one)
    for path in paths:
        add(path, line(2))
    reading = read(one, look=False)

    assert [("gpt-1", 2)] == [(one.run, sum(one.counts)) for one in reading.operations]


def test_of_two_runs_whose_ranks_have_one_pid_none_is_named(source, logs, machine):
    log_of(logs, text=line(1))
    ranks = [RankProcess("one", 0, PID), RankProcess("two", 0, PID)]

    assert [""] == [one.run for one in read(source(ranks=ranks)).operations]
    assert ["one"] == [one.run for one in read(source(ranks=ranks[:1] * 2)).operations]


def test_a_folder_of_two_names_is_read_once(source, logs, tmp_path):
    (tmp_path / "link").symlink_to(logs)
    (logs / "job").mkdir()
    log_of(logs / "job", text=line(1))

    assert 1 == counted(read(source(logs, tmp_path / "link", logs / "job")))


def test_other_files_are_left_alone(source, logs):
    for name in ("nccl_inspector_metrics_0.prom", "host-pid1.log.gz", "host-pidx.log", "pid1.log"):
        (logs / name).write_text(line(1))

    assert not source().available()


def test_more_operations_than_are_told_are_counted_as_dropped(source, logs):
    log_of(logs, text="".join(line(n, f"group {n}") for n in range(40)))
    reading = read(source())

    assert (32, 8, {"too_many": 8}) == (counted(reading), reading.dropped, reasons(reading))


def test_the_page_tells_them_in_base_units(source, logs):
    log_of(logs, text=line(1, us=50) + line(2, us=200))
    samples = list(nccl.collect_inspector(read(source())))
    families = {one.name: one for one in text_string_to_metric_families(render(samples))}

    key = {"run": "", "group": "dp", "op": "all_reduce"}
    sized = key | {"size_bucket": "1MiB-16MiB"}
    found = {(s.metric.name, s.labels): s.value for s in samples}
    labels = tuple(sized.values())
    assert 2 == found[m.NCCL_COLLECTIVES.name, labels]
    assert 2 << 20 == found[m.NCCL_BYTES.name, labels]
    assert (1 << 20) / 100e-6 == pytest.approx(found[m.NCCL_ALGORITHM_BANDWIDTH.name, labels])
    assert 1.75 * (1 << 20) / 100e-6 == pytest.approx(found[m.NCCL_BUS_BANDWIDTH.name, labels])
    histogram = families[m.NCCL_DURATION.name]
    by_bound = {s.labels["le"]: s.value for s in histogram.samples if "le" in s.labels}
    assert (0, 1, 2, 2) == tuple(by_bound[le] for le in ("3e-05", "0.0001", "0.0003", "+Inf"))
    assert 0 == found[m.NCCL_SEQUENCE_GAPS.name, ()]
    assert 0 == found[m.EVENTS_DROPPED.name, ("nccl_inspector",)]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("atrd"), st.binary(max_size=200)), max_size=8))
def test_whatever_is_done_to_a_file_no_error_and_no_part_of_a_line_comes_out(
    tmp_path_factory, steps
):
    """a = append, t = truncate and write, r = replace, d = delete."""
    path = tmp_path_factory.mktemp("logs") / "h-pid1.log"
    path.write_bytes(b"")
    one = Tail(path)
    for kind, data in steps:
        if kind == "a" or not path.exists():
            with path.open("ab") as stream:
                stream.write(data)
        elif kind == "t":
            path.write_bytes(data)
        elif kind == "r":
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").replace(path)
        else:
            path.unlink()
            path.write_bytes(data)
        text = one.read()
        assert not text or text.endswith(b"\n")
        assert text in path.read_bytes()
