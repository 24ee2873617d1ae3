"""A rank leaves its dump beside its ring when it is asked, and the collector understands it."""

import os
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d

from lockstep.collector.contract.flight_recorder import dump_name, request_name
from lockstep.collector.formats.flight_recorder.dump import parse
from lockstep.collector.sources.nccl.flight_recorder.missing import missing
from lockstep.workloads.measure import flight_recorder
from lockstep.workloads.measure.flight_recorder import DumpOnRequest


@pytest.fixture
def ask(tmp_path):
    times = iter(range(1, 100))

    def touch():
        path = tmp_path / request_name("gpt-1")
        path.touch()
        os.utime(path, (1e9 + next(times),) * 2)

    return touch


@pytest.fixture
def dump(tmp_path):
    return tmp_path / dump_name("gpt-1", 3)


def test_nobody_asked_and_nothing_is_written(tmp_path, dump):
    DumpOnRequest(tmp_path, "gpt-1", 3)()

    assert not dump.exists()


def test_a_request_is_answered_once(tmp_path, ask, dump):
    beat = DumpOnRequest(tmp_path, "gpt-1", 3)
    ask()
    beat()

    assert b'"version"' in dump.read_bytes()
    dump.unlink()
    beat()
    assert not dump.exists()
    ask()
    beat()
    assert dump.exists()


def test_a_request_to_another_run_or_an_earlier_attempt_is_not_answered(tmp_path, ask, dump):
    ask()
    for run in ("gpt-1", "gpt-2"):
        DumpOnRequest(tmp_path, run, 3)()

    assert not dump.exists()


def test_a_torch_that_cannot_says_so_and_goes_on(tmp_path, ask, dump, monkeypatch, capsys):
    monkeypatch.setattr(flight_recorder, "TRACE", "_no_such_function")
    beat = DumpOnRequest(tmp_path, "gpt-1", 3)
    ask()
    beat()
    beat()

    assert 1 == capsys.readouterr().err.count("no flight-recorder dump")
    assert not dump.exists()


def test_a_folder_that_cannot_be_written_to_does_not_end_the_heartbeat(tmp_path, ask, capsys):
    beat = DumpOnRequest(tmp_path, "gpt-1", 3)
    ask()
    (tmp_path / dump_name("gpt-1", 3)).mkdir()
    beat()

    assert "no flight-recorder dump" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["symlink_to", "hardlink_to"])
def test_a_link_in_the_place_of_a_dump_leaves_its_file_alone(tmp_path, ask, dump, kind):
    """Others may write beside a ring."""
    mine = tmp_path / "thesis"
    mine.write_text("of years")
    for place in (dump, dump.with_name(f".{dump.name}")):
        getattr(place, kind)(mine)
    beat = DumpOnRequest(tmp_path, "gpt-1", 3)
    ask()
    beat()

    assert "of years" == mine.read_text()
    assert b'"version"' in dump.read_bytes()


@pytest.mark.distributed
def test_the_dumps_of_the_installed_torch_tell_who_is_missing_in_both_formats(forked, tmp_path):
    """Rank 1 joins the second collective of group dp only once both have written their dumps."""

    def dump(rank):
        for form, function in (("json", "_dump_fr_trace_json"), ("pickle", "_dump_fr_trace")):
            hidden = tmp_path / f"hidden-{form}-{rank}"
            hidden.write_bytes(getattr(_distributed_c10d, function)())
            hidden.rename(tmp_path / f"{form}-{rank}")

    def work(rank):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        rendezvous = f"file://{tmp_path}/rendezvous"
        dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
        dp = dist.new_group([0, 1], group_desc="dp")
        dist.all_reduce(torch.zeros(4), group=dp)
        if rank == 0:
            threading.Timer(0.5, dump, (0,)).start()
        else:
            deadline = time.monotonic() + 60
            while not (tmp_path / "pickle-0").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            dump(1)
        dist.all_reduce(torch.zeros(4), group=dp)
        dist.destroy_process_group()
        return True

    assert [True, True] == forked(2, work)
    for form in ("json", "pickle"):
        files = [tmp_path / f"{form}-{rank}" for rank in (0, 1)]
        dumps = [
            parse(file.read_bytes(), "gpt-1", rank, file.stat().st_mtime)
            for rank, file in enumerate(files)
        ]
        (one,) = missing(dumps, [0, 1])

        assert ("dp", 2, "all_reduce", (1,), ()) == (
            one.group, one.sequence, one.op, one.ranks, one.silent,
        )  # fmt: skip
        assert 0.3 < one.waited_seconds < 60
        assert ((), ()) == (dumps[0].rejected, dumps[1].rejected)
