"""Folders of NCCL Inspector's files: as they should be, and as they should not."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.analyzer.read.collectives import inspector
from lockstep.analyzer.read.collectives.load import load_collectives
from lockstep.analyzer.shapes.run import LoadError
from lockstep.analyzer.verdict.pipeline import diagnose

USUAL, LATE = 0.100, 0.150
TRANSFER_US = 500
START_US = 1_748_030_377_748_202


def line(
    rank: int, number: int, micros: int, written: int, *, size: int = 4, name: str = "dp",
    identity: str = "0x7f8c496ae9f661", op: str = "AllReduce", payload: int = 1 << 24,
    pid: int | None = None, **more: Any,
) -> str:  # fmt: skip
    tree = {
        "header": {"id": identity, "comm_name": name, "rank": rank, "n_ranks": size, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": "v4.0", "git_rev": "",
            "rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": written,
            "hostname": f"host-{rank // 2}", "pid": 100 + rank if pid is None else pid,
        },
        "coll_perf": {
            "coll": op, "coll_sn": number, "coll_msg_size_bytes": payload,
            "coll_exec_time_us": micros, "coll_timing_source": "kernel_gpu",
            "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.75, **more,
        },
    }  # fmt: skip
    return json.dumps(tree, separators=(",", ":")) + "\n"


def job(
    *, steps: int = 120, slow: int | None = 2, since: int = 60, per_step: int = 1,
    name: str = "dp", identity: str = "0x7f8c496ae9f661", seed: int = 0, at: int = START_US,
    first_pid: int = 100,
) -> dict[int, list[str]]:  # fmt: skip
    """Lines of four ranks; the late one shows the shortest duration."""
    dice = np.random.default_rng(seed)
    made: dict[int, list[str]] = {rank: [] for rank in range(4)}
    now = float(at)
    for step in range(steps):
        own = np.full(4, USUAL) * (1 + 0.01 * dice.standard_normal(4))
        if slow is not None and step >= since:
            own[slow] *= LATE / USUAL
        for part in range(per_step):
            late = (own.max() - own) * 1e6 if part == 0 else np.zeros(4)
            now += (own.max() * 1e6 if part == 0 else 0) + TRANSFER_US
            for rank in range(4):
                # The ranks' clocks disagree by seconds, and that says nothing.
                written = round(now) + 3_000_000 * rank
                micros = TRANSFER_US + round(late[rank])
                made[rank].append(
                    line(rank, step * per_step + part, micros, written, name=name,
                         identity=identity, pid=first_pid + rank)
                )  # fmt: skip
    return made


def written(folder: Path, lines: dict[int, list[str]], prefix: str = "host") -> Path:
    folder.mkdir(exist_ok=True)
    for rank, each in lines.items():
        (folder / f"{prefix}-{rank // 2}-pid{100 + rank}.log").write_text("".join(each))
    return folder


def culprits(folder: Path) -> list[int | None]:
    return [one.rank for one in diagnose(load_collectives(folder)).verdict.culprits]


def test_a_healthy_job_has_no_culprit(tmp_path: Path):
    verdict = diagnose(load_collectives(written(tmp_path, job(slow=None)))).verdict

    assert (verdict.status, verdict.culprits) == ("healthy", ())
    assert any("no steps were reported" in words for words in verdict.missing)


def test_the_late_rank_is_named_by_durations_alone(tmp_path: Path):
    assert culprits(written(tmp_path, job())) == [2]


def test_own_time_is_the_window_less_the_waits(tmp_path: Path):
    windows = load_collectives(written(tmp_path, job())).windows
    late = windows[windows["from_step"] >= 60].groupby("rank")["own_seconds"].median()

    assert late[2] == pytest.approx(LATE, rel=0.02)
    assert late[0] == pytest.approx(USUAL, rel=0.02)


def test_several_equal_collectives_of_a_step_are_one_step(tmp_path: Path):
    folder = written(tmp_path, job(per_step=5))
    run = load_collectives(folder)

    before = run.windows[run.windows["from_step"] < 60]

    assert before["wall_seconds"].median() == pytest.approx(USUAL, rel=0.1)
    assert culprits(folder) == [2]


def test_one_file_of_all_processes_in_any_order_says_the_same(tmp_path: Path):
    lines = [one for each in job().values() for one in each]
    np.random.default_rng(1).shuffle(lines)
    (tmp_path / "inspector.jsonl").write_text("".join(lines))

    assert culprits(tmp_path) == [2]


def test_rotated_files_that_overlap_count_their_lines_once(tmp_path: Path):
    lines = job()
    folder = written(tmp_path, lines)
    whole = load_collectives(folder).windows
    (folder / "host-0-pid100.log.1").write_text("".join(lines[0][20:90]))

    assert load_collectives(folder).windows.equals(whole)


def test_a_half_written_last_line_is_told_and_harms_nothing(tmp_path: Path):
    lines = job()
    lines[1][-1] = lines[1][-1][:80]
    run = load_collectives(written(tmp_path, lines))

    assert any("1 half written" in words for words in run.missing)
    assert culprits(tmp_path) == [2]


def test_files_that_begin_inside_a_line_are_read_from_the_next(tmp_path: Path):
    lines = job()
    for each in lines.values():
        each[0] = each[0][100:]
    run = load_collectives(written(tmp_path, lines))

    assert any("4 not JSON" in words for words in run.missing)
    assert culprits(tmp_path) == [2]


def test_without_one_ranks_file_nobodys_own_time_is_known(tmp_path: Path):
    lines = job()
    del lines[3]
    run = load_collectives(written(tmp_path, lines))

    assert run.windows["own_seconds"].isna().all()
    assert [one.rank for one in run.ranks] == [0, 1, 2, 3]
    assert any("no lines of rank 3" in words for words in run.missing)
    assert diagnose(run).verdict.status == "unknown"


def test_what_a_ring_overwrote_is_not_known_and_the_rest_is(tmp_path: Path):
    lines = job()
    lines[1] = [one for number, one in enumerate(lines[1]) if not 20 <= number < 40]
    windows = load_collectives(written(tmp_path, lines)).windows
    unknown = windows[windows["own_seconds"].isna()]

    assert set(unknown["from_step"]) <= set(range(19, 41))
    assert len(unknown)
    assert culprits(tmp_path) == [2]


def test_collectives_below_the_least_size_make_own_time_unknown(tmp_path: Path):
    lines = job(per_step=2)
    kept = {rank: each[::2] for rank, each in lines.items()}
    run = load_collectives(written(tmp_path, kept))

    assert run.windows["own_seconds"].isna().all()
    assert any("NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES" in words for words in run.missing)


def test_lines_that_were_all_written_at_the_end_tell_no_steps_times(tmp_path: Path):
    lines = {
        rank: [line(rank, step, 500 + 1000 * rank, START_US + step) for step in range(100)]
        for rank in range(4)
    }
    run = load_collectives(written(tmp_path, lines))

    assert run.windows.empty
    assert any("all lines were written at once" in words for words in run.missing)
    assert diagnose(run).verdict.status == "unknown"


def test_of_two_attempts_the_last_is_judged_and_it_is_said(tmp_path: Path):
    before = job(slow=0, identity="0xold", at=START_US - 10**9, first_pid=900)
    written(tmp_path, job())
    written(tmp_path, before, "before")
    run = load_collectives(tmp_path)

    assert any("2 jobs or attempts" in words for words in run.missing)
    assert culprits(tmp_path) == [2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "holds no files of NCCL Inspector"),
        ("not ours\n", "holds no files of NCCL Inspector"),
        ('{"header":{"id":1}}\n', "without header or metadata"),
        ('{"header":{' + "[" * 5000 + "\n", "not JSON"),
        (line(0, 1, 5, START_US).replace('"rank":0', '"rank":9'), "without communicator or rank"),
        (line(0, 1, 5, START_US).replace("AllReduce", "Halt"), "without operation"),
        (line(0, 1, 0, START_US), "without a time that can be"),
    ],
)
def test_a_folder_of_something_else_is_refused_in_a_sentence(tmp_path: Path, text: str, why: str):
    (tmp_path / "host-pid1.log").write_text(text)

    with pytest.raises(LoadError, match=why):
        load_collectives(tmp_path)


def test_a_missing_folder_is_refused_in_a_sentence(tmp_path: Path):
    with pytest.raises(LoadError, match="cannot be read"):
        load_collectives(tmp_path / "nowhere")


def with_markers(lines: list[str], together: int) -> list[str]:
    """As format v4.3 writes them: so many at a time, behind a line that says whose they are."""
    made: list[str] = []
    for first in range(0, len(lines), together):
        trees = [json.loads(one) for one in lines[first : first + together]]
        marker = {
            "header": trees[0]["header"], "metadata": trees[-1]["metadata"],
            "dump_stats": {"coll_records": len(trees), "coll_dropped_total": 0},
        }  # fmt: skip
        made += [json.dumps(marker, separators=(",", ":")) + "\n"]
        made += [json.dumps({"coll_perf": one["coll_perf"]}) + "\n" for one in trees]
    return made


@pytest.mark.parametrize("together", [1, 2])
def test_lines_behind_a_marker_are_whose_it_says(tmp_path: Path, together: int):
    lines = {rank: with_markers(each, together) for rank, each in job(steps=200).items()}

    assert culprits(written(tmp_path, lines)) == [2]


def test_behind_a_marker_whose_lines_did_not_all_come_nothing_is_guessed(tmp_path: Path):
    lines = {rank: with_markers(each, 5) for rank, each in job().items()}
    del lines[0][2]
    run = load_collectives(written(tmp_path, lines))
    whole = load_collectives(written(tmp_path / "whole", {
        rank: with_markers(each, 5) for rank, each in job().items()
    }))  # fmt: skip

    assert not any("no marker line" in words for words in run.missing)
    assert len(run.windows) <= len(whole.windows)


def test_lines_without_header_and_marker_are_nobodys(tmp_path: Path):
    bare = [json.dumps({"coll_perf": json.loads(one)["coll_perf"]}) + "\n" for one in job()[0]]
    run_lines = job()
    run_lines[0] += bare[:3]
    run = load_collectives(written(tmp_path, run_lines))

    assert any("3 without header, and no marker line" in words for words in run.missing)


def test_usual_lines_are_read_as_json_reads_them(tmp_path: Path, monkeypatch):
    dice = np.random.default_rng(7)
    lines = [one for each in job(steps=30).values() for one in each]
    lines += [one.replace("kernel_gpu", "kernel_cpu") for one in lines[:9]]
    lines += [one.replace('"coll_exec_time_us":', '"coll_exec_time_us":1e') for one in lines[:3]]
    lines += [one.replace('"dp"', '"tp"').replace("7f8c", "8f8c") for one in lines[:40]]
    lines += [
        one.replace("hostname", 'x":"\\"dump_timestamp_us\\":7","hostname') for one in lines[:9]
    ]
    dice.shuffle(lines)  # type: ignore[arg-type]
    path = tmp_path / "all.log"
    path.write_text("".join(lines))
    quick_missing: list[str] = []
    slow_missing: list[str] = []
    quick = inspector.read([path], quick_missing).whole()
    monkeypatch.setattr(inspector, "USUAL", re.compile(b"never"))
    slow = inspector.read([path], slow_missing).whole()

    assert quick_missing == slow_missing
    assert (quick.processes, quick.communicators) == (slow.processes, slow.communicators)
    for name in ("process", "communicator", "rank", "op", "sequence", "peer", "bytes", "seconds",
                 "time", "means", "counted"):  # fmt: skip
        assert (getattr(quick, name) == getattr(slow, name)).all(), name


def test_numbers_of_a_foreign_locale_are_read(tmp_path: Path):
    lines = {
        rank: [re.sub(r'(busbw_gbs":[0-9]+)\.', r"\1,", one) for one in each]
        for rank, each in job().items()
    }
    assert ",75}}" in lines[0][0]
    run = load_collectives(written(tmp_path, lines))

    assert not any("of no use" in words for words in run.missing)
    assert not run.windows.empty
