"""The runner: finished cells are not run again, failed ones are named, kills lose nothing."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results, state
from lockstep.bench.fitting import refuse_what_cannot_run
from lockstep.bench.plan import cells
from lockstep.bench.processes import VARIABLE, default_file, turn
from lockstep.bench.runner import Runner, Told, refuse_without_room
from lockstep.bench.spec import BenchError, UnreachableError, parse
from lockstep.workloads.launch.kubernetes.cluster import ClusterError

COUNT = "import pathlib, sys; p = pathlib.Path('{out}/ran-{cell}'); p.open('a').write('x')"


def made(tmp_path: Path, *more: dict[str, Any], launch: str = COUNT, **bench: Any) -> Runner:
    """A benchmark of three cells whose launch is a small program."""
    tree = {
        "bench": {"name": "n", "report": [], **bench},
        "workloads": {"gpt": {}},
        "matrix": {"nodes": [1, 2, 3]},
        "steps": [
            {"name": "launch", "command": [sys.executable, "-c", launch]},
            {"name": "analyze", "command": ["true"]},
            *more,
        ],
    }
    out = tmp_path / "out"
    return Runner(parse(tree), out, out / "results.parquet", tmp_path, ("lockstep",))


def run_all(one: Runner) -> Sequence[Told]:
    return [one.run(cell) for cell in cells(one.bench)]


def times_run(one: Runner) -> list[int]:
    return [len((one.out / f"ran-{cell.name}").read_text()) for cell in cells(one.bench)]


def raises_full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_every_cell_leaves_a_row_and_is_not_run_again(tmp_path: Path) -> None:
    one = made(tmp_path)
    assert ["finished"] * 3 == [each.status for each in run_all(one)]
    assert [True] * 3 == [each.again for each in run_all(one)]

    assert [1, 1, 1] == times_run(one)
    rows = results.read(one.table)
    assert [1, 2, 3] == [each["nodes"] for each in rows]
    assert {"gpt"} == {each["workload"] for each in rows}


def test_a_failed_cell_is_told_with_its_last_lines_and_the_others_go_on(tmp_path: Path) -> None:
    fails = COUNT + "; print('line one\\nno GPU left', file=sys.stderr); sys.exit({nodes} == 2)"
    one = made(tmp_path, launch=fails)
    told = run_all(one)

    assert ["finished", "failed", "finished"] == [each.status for each in told]
    assert "launch exited 1: no GPU left" == told[1].reason
    row = results.read(one.table)[1]
    assert ("failed", "line one\nno GPU left") == (row["status"], row["last_lines"])


def test_a_failed_cell_is_run_again_by_the_next_call_and_its_row_replaced(tmp_path: Path) -> None:
    once = COUNT + "; sys.exit({nodes} == 2 and p.stat().st_size == 1)"
    one = made(tmp_path, launch=once)
    run_all(one)
    run_all(one)

    assert [1, 2, 1] == times_run(one)
    assert ["finished"] * 3 == [each["status"] for each in results.read(one.table)]


def test_a_cell_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    slow = (
        COUNT + "; import subprocess, time; child = subprocess.Popen(['sleep', '300']);"
        " pathlib.Path('{out}/child').write_text(str(child.pid)); time.sleep(300)"
    )
    one = made(tmp_path, launch=slow, timeout=1.5)
    told = one.run(cells(one.bench)[0])

    assert "timeout" == told.status
    assert "launch had not ended after 1.5 s, and was ended" == told.reason
    child = Path(f"/proc/{(one.out / 'child').read_text()}/stat")
    assert not child.exists() or child.read_text().split(") ")[1][0] == "Z"


def test_clean_up_runs_though_a_step_before_it_failed(tmp_path: Path) -> None:
    cleaned = {"name": "clean-up", "command": ["touch", "{out}/cleaned"]}
    one = made(tmp_path, cleaned, launch="raise SystemExit(3)")

    assert "failed" == one.run(cells(one.bench)[0]).status
    assert (one.out / "cleaned").exists()


@pytest.mark.parametrize("launched", [0, 3])
def test_a_clean_up_that_failed_is_told_with_the_command_that_does_it(
    tmp_path: Path, launched: int
) -> None:
    cleaned = {"name": "clean-up", "command": ["sh", "-c", "exit 4"]}
    one = made(tmp_path, cleaned, launch=f"raise SystemExit({launched})")
    first = cells(one.bench)[0]
    told = one.run(first)

    before = f"launch exited {launched}: it said nothing; " if launched else ""
    assert (
        f"{before}clean-up exited 4: it said nothing; by hand:"
        f" cd {one.out / first.folder} && sh -c 'exit 4'"
    ) == told.reason
    assert "failed" == told.status


def test_numbers_of_a_steps_output_become_columns(tmp_path: Path) -> None:
    text = json.dumps({"p99_seconds": 0.25, "count": 3}).replace("{", "{{").replace("}", "}}")
    measured = {
        "name": "measured", "after": "wait",
        "command": ["sh", "-c", f"echo '{text}' > {{metrics}}"],
        "outputs": {"metrics": "m.json"},
    }  # fmt: skip
    one = made(tmp_path, measured)
    one.run(cells(one.bench)[0])

    (row,) = results.read(one.table)
    assert (0.25, 3.0) == (row["metric_p99_seconds"], row["metric_count"])


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"command": ["true"], "outputs": {"x": "x.txt"}}, "step more did not write .*x.txt"),
        ({"command": ["no-such-program-1"]}, "step more: there is no program no-such-program-1"),
        ({"command": ["sh", "-c", "echo 'x: 1' > {metrics}"], "outputs": {"metrics": "m.json"}},
         "step more: m.json cannot be read as JSON"),
        ({"command": ["sleep", "9"], "timeout": 0.2}, "more had not ended after 0.2 s"),
        ({"command": ["true"], "inputs": ["archive"]}, "step more needs .*archive-0, which no"),
    ],
)  # fmt: skip
def test_a_step_that_goes_wrong_fails_its_cell_with_a_reason(
    tmp_path: Path, step: dict[str, Any], said: str
) -> None:
    one = made(tmp_path, {"name": "more", "after": "wait", **step})
    told = one.run(cells(one.bench)[0])

    assert told.status in ("failed", "timeout")
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(told.reason)


@pytest.mark.parametrize(
    "step",
    [
        {"name": "beside", "after": "launch", "command": ["true"]},
        {"name": "wait", "command": ["true"]},
        {"name": "wait", "after": "configure", "command": ["true"]},
    ],
    ids=["between", "replaced", "moved"],
)
def test_a_launch_that_fails_is_told_whatever_stands_around_it(
    tmp_path: Path, step: dict[str, Any]
) -> None:
    one = made(tmp_path, step, launch="import time; time.sleep(0.2); raise SystemExit(9)")
    told = one.run(cells(one.bench)[0])

    assert ("failed", "launch exited 9: it said nothing") == (told.status, told.reason)
    assert one._launched is None


def test_exit_codes_and_outputs_of_a_launch_of_the_file_are_its_own(tmp_path: Path) -> None:
    for number, (more, status) in enumerate((
        ({"ok": [0, 9]}, "finished"), ({"ok": [9], "outputs": {"x": "x.txt"}}, "failed"),
    )):  # fmt: skip
        one = made(tmp_path / str(number))
        launch = {"name": "launch", "command": ["sh", "-c", "exit 9"], **more}
        head = {"bench": {"name": "n", "report": []}, "workloads": {"gpt": {}}}
        one.bench = parse({**head, "steps": [launch, {"name": "analyze", "command": ["true"]}]})
        assert status == one.run(cells(one.bench)[0]).status


def test_what_an_earlier_attempt_wrote_is_not_taken_for_new(tmp_path: Path) -> None:
    once = "test -e {out}/was || echo '{{\"count\": 1}}' > {metrics}; touch {out}/was; exit 1"
    step = {"name": "measured", "after": "wait", "command": ["sh", "-c", once],
            "outputs": {"metrics": "m.json"}}  # fmt: skip
    one = made(tmp_path, step)
    first = cells(one.bench)[0]
    one.run(first)
    assert 1.0 == results.read(one.table)[0]["metric_count"]
    one.run(first)
    assert results.read(one.table)[0].get("metric_count") is None


def test_a_cell_that_another_of_its_name_finished_is_run(tmp_path: Path) -> None:
    one = made(tmp_path)
    first = cells(one.bench)[0]
    one.run(first)

    other = replace(first, settings={"steps": 41})
    assert [False, True] == [one.run(other).again for _ in range(2)]


def test_a_folder_of_another_benchmark_is_refused(tmp_path: Path) -> None:
    run_all(made(tmp_path))
    other = made(tmp_path, launch="pass")

    with pytest.raises(BenchError, match="was run with other settings; choose another --out"):
        other.check(cells(other.bench))


@pytest.mark.parametrize("code", [0, 3])
def test_ctrl_c_ends_what_runs_cleans_up_says_so_and_leaves_the_cell_open(
    tmp_path: Path, code: int
) -> None:
    words = ["sh", "-c", f"touch {{out}}/cleaned; exit {code}"]
    one = made(
        tmp_path, {"name": "clean-up", "command": words},
        launch=COUNT + "; import time; time.sleep({nodes} * 300)",
    )  # fmt: skip

    def pressed(stage: str, text: str) -> None:
        if text == "wait":
            raise KeyboardInterrupt

    one.show = pressed
    first = cells(one.bench)[0]
    with pytest.raises(KeyboardInterrupt):
        one.run(first)

    assert one._running is None
    assert one._launched is None
    assert state.closed(one.out, first) is None
    assert (one.out / "cleaned").exists()
    [row] = results.read(one.table)
    assert "stopped" == row["status"]
    assert str(row["reason"]).startswith("somebody stopped it")
    by_hand = f"by hand: cd {one.out / first.folder} && sh -c 'touch"
    assert bool(code) == (by_hand in one.left)
    assert one.left in str(row["reason"])


ANALYZED = {"name": "analyze", "command": ["sh", "-c", "echo {archive} >> {out}/analyzed"]}


def analyzed(one: Runner) -> list[str]:
    return (one.out / "analyzed").read_text().splitlines()


class Killed(BaseException):
    """What ends a process wherever it is."""


def killed_at(one: Runner, step: str, by: type[BaseException] = Killed) -> None:
    """Its first cell is begun, and the bench ends when it comes to a step."""

    def dies(cell: str, now: str) -> None:
        if now == step:
            raise by

    one.show = dies
    with pytest.raises(by):
        one.run(cells(one.bench)[0])
    one.show = lambda stage, text: None


@pytest.mark.parametrize("step", ["analyze", "after"])
def test_a_run_that_had_finished_before_a_kill_is_not_run_again_nor_any_step_after_it(
    tmp_path: Path, step: str
) -> None:
    archive = "; pathlib.Path('{archive}').mkdir()"
    after = {"name": "after", "after": "analyze", "command": ["true"]}
    one = made(tmp_path, after, launch=COUNT + archive)
    one.bench = replace(one.bench, tasks=(
        *(each for each in one.bench.tasks if each.name != "analyze"),
        *parse({"bench": {"name": "n"}, "workloads": {"gpt": {}}, "steps": [ANALYZED]}).tasks,
    ))  # fmt: skip
    killed_at(one, step)
    first, *_ = cells(one.bench)
    told = one.run(first)

    assert ("finished", False) == (told.status, told.again)
    assert 1 == len((one.out / f"ran-{first.name}").read_text())
    assert 1 == len(analyzed(one))
    assert [] == list(one.out.rglob(state.UNDERWAY))
    assert one.run(first).again


def test_a_row_that_could_not_be_written_is_without_running_anything_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made(tmp_path, {"name": "more", "after": "analyze",
                          "command": ["sh", "-c", "echo {cell} >> {out}/analyzed"]})  # fmt: skip
    first, *_ = cells(one.bench)
    with monkeypatch.context() as full:
        full.setattr("lockstep.bench.runner.write", raises_full)
        full.setenv("LOCKSTEP_COMMIT", "first")
        with pytest.raises(BenchError, match="nothing is lost"):
            one.run(first)
    monkeypatch.setenv("LOCKSTEP_COMMIT", "second")
    told = one.run(first)
    [row] = results.read(one.table)

    assert ("finished", "first") == (told.status, row["commit"])
    assert (1, 1) == (len((one.out / f"ran-{first.name}").read_text()), len(analyzed(one)))


@pytest.mark.parametrize("cleans", [False, True])
def test_a_stop_after_the_run_goes_on_there_unless_clean_up_took_something_away(
    tmp_path: Path, cleans: bool
) -> None:
    more = [{"name": "clean-up", "command": ["true"]}] if cleans else []
    one = made(tmp_path, *more)
    killed_at(one, "analyze", KeyboardInterrupt)
    first, *_ = cells(one.bench)
    assert "finished" == one.run(first).status

    assert 1 + cleans == len((one.out / f"ran-{first.name}").read_text())


@pytest.mark.parametrize("odd", ['{"fingerprint": 1}', "null", "[]", "", '"told": {"new": 1, '])
def test_what_is_left_of_an_attempt_and_is_not_ours_is_told(tmp_path: Path, odd: str) -> None:
    one = made(tmp_path)
    killed_at(one, "analyze")
    [path] = one.out.rglob(state.UNDERWAY)
    # The last: a column of another version, which a table of this one does not have.
    path.write_text(path.read_text().replace('"told": {', odd) if "new" in odd else odd)

    with pytest.raises(BenchError, match=r"underway.json cannot be read .*; remove it"):
        one.run(cells(one.bench)[0])


def test_a_run_whose_archive_somebody_removed_to_make_room_is_run_again(tmp_path: Path) -> None:
    one = made(tmp_path, launch=COUNT + "; pathlib.Path('{archive}').mkdir(exist_ok=True)")
    killed_at(one, "analyze")
    first, *_ = cells(one.bench)
    [archive] = one.out.rglob("archive-*")
    archive.rmdir()

    assert "finished" == one.run(first).status
    assert 2 == len((one.out / f"ran-{first.name}").read_text())


def test_what_an_attempt_before_had_done_does_not_count_for_the_next_of_its_number(
    tmp_path: Path,
) -> None:
    one = made(tmp_path, launch=COUNT + "; pathlib.Path('{archive}').mkdir(exist_ok=True)")
    first, *_ = cells(one.bench)
    killed_at(one, "analyze")
    [archive] = one.out.rglob("archive-*")
    archive.rmdir()
    killed_at(one, "launch")
    archive.mkdir()  # half a run

    assert "launch" in [step.name for step in one.planned(first)]
    assert "finished" == one.run(first).status
    assert 2 == len((one.out / f"ran-{first.name}").read_text())


def test_what_is_planned_of_a_cell_that_goes_on_is_what_is_left(tmp_path: Path) -> None:
    one = made(tmp_path)
    first, *_ = cells(one.bench)
    assert "launch" in [step.name for step in one.planned(first)]
    killed_at(one, "analyze")

    assert ["analyze", "report", "clean-up"] == [step.name for step in one.planned(first)]


def test_the_seconds_of_a_cell_that_goes_on_are_those_of_all_its_steps(tmp_path: Path) -> None:
    one = made(tmp_path, launch=COUNT + "; import time; time.sleep(0.5)")
    killed_at(one, "analyze")
    first, *_ = cells(one.bench)
    told = one.run(first)

    assert told.seconds >= 0.5
    assert told.seconds == one.run(first).seconds


def test_a_full_disk_keeps_no_step_from_cleaning_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"name": "clean-up", "command": ["touch", "{out}/clean"]}
    one = made(tmp_path, clean)
    monkeypatch.setattr("lockstep.bench.state._write", raises_full)
    with pytest.raises(UnreachableError, match="nothing is lost"):
        one.run(cells(one.bench)[0])

    assert (one.out / "clean").exists()


def test_a_row_of_before_that_nobody_can_read_does_not_hide_a_stop(tmp_path: Path) -> None:
    one = made(tmp_path)
    first, *_ = cells(one.bench)
    assert "finished" == one.run(first).status
    [part] = one.table.iterdir()
    part.write_text("torn")
    [closed] = one.out.rglob(state.CLOSED)
    closed.unlink()

    killed_at(one, "launch", KeyboardInterrupt)


def test_a_cell_that_is_stopped_keeps_the_row_of_one_that_finished(tmp_path: Path) -> None:
    first, again = made(tmp_path / "first"), made(tmp_path / "again")
    again.table = first.table
    assert "finished" == first.run(cells(first.bench)[0]).status

    def pressed(stage: str, text: str) -> None:
        raise KeyboardInterrupt

    again.show = pressed
    with pytest.raises(KeyboardInterrupt):
        again.run(cells(again.bench)[0])

    assert ["finished"] == [row["status"] for row in results.read(first.table)]


def test_a_launch_that_somebody_else_stopped_is_told_so_and_run_again(tmp_path: Path) -> None:
    one = made(tmp_path, launch=COUNT + "; sys.exit(130 if p.stat().st_size == 1 else 0)")
    first = cells(one.bench)[0]

    told, again = one.run(first), one.run(first)
    assert ("stopped", "somebody stopped it") == (told.status, told.reason)
    assert ("finished", False) == (again.status, again.again)


def test_a_container_that_takes_too_long_is_removed_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$1" = rm ] || sleep 300\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    step = {"name": "draw", "after": "wait", "container": {"image": "i"}, "timeout": 1.0}
    told = made(tmp_path, step).run(cells(made(tmp_path, step).bench)[0])

    ran, removed = (tmp_path / "asked").read_text().splitlines()
    name = next(word for word in ran.split() if word.startswith("--name=")).removeprefix("--name=")
    assert f"rm --force {name}" == removed
    assert ("timeout", "draw had not ended after 1 s, and was ended") == (told.status, told.reason)


def test_a_clean_up_in_a_container_that_failed_is_told_with_what_runs_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text("#!/bin/sh\nexit 3\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    container = {"image": "tools:1", "command": ["wipe"], "args": ["{cell}"]}
    one = made(tmp_path, {"name": "clean-up", "container": container})
    killed_at(one, "analyze", KeyboardInterrupt)

    folder = one.out / cells(one.bench)[0].folder
    assert f"by hand: cd {folder} && docker run --rm --init --network=host" in one.left
    assert one.left.endswith("--entrypoint wipe tools:1 gpt,nodes=1")


@pytest.mark.parametrize("launcher", ["mpirun", "kubernetes"])
def test_files_that_options_name_are_beside_the_benchmarks_file_for_check_and_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    (tmp_path / "bin").mkdir()
    mpirun = tmp_path / "bin/mpirun"
    mpirun.write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    name, word = ("hostfile", "hosts") if launcher == "mpirun" else ("kubeconfig", "own.yaml")
    told = parse({
        "bench": {"name": "n", "launcher": launcher, "options": {name: word}},
        "workloads": {"gpt": {"data": "copy"}},
        "matrix": {"images": ["" if launcher == "mpirun" else "r/lockstep-workloads:1"]},
    })  # fmt: skip
    asked: list[object] = []
    monkeypatch.setattr(
        "lockstep.runs.on_cluster.connect", lambda *place: asked.append(place) or Away()
    )
    one = Runner(told, tmp_path / "out", tmp_path / "t", tmp_path, ("lockstep",))
    [cell] = cells(told)
    launch = one.planned(cell)[1].command
    at = str(tmp_path / word)

    assert at == launch[launch.index(f"--{name}") + 1]
    assert "copy" == launch[launch.index("--data") + 1]
    if launcher == "mpirun":
        refuse_what_cannot_run(told, [cell], lambda *_: None, {name, "data"}, tmp_path)
    else:
        with pytest.raises(UnreachableError, match="is away"):
            refuse_what_cannot_run(told, [cell], lambda *_: None, {name, "data"}, tmp_path)
        assert [(Path(at), None)] == asked


class Away:
    """A cluster that does not answer."""

    def __getattr__(self, name: str) -> Any:
        if name == "close":
            return lambda: None
        raise ClusterError("it is away")


def test_a_row_that_cannot_be_written_leaves_the_cell_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made(tmp_path)
    first = cells(one.bench)[0]

    monkeypatch.setattr("lockstep.bench.runner.write", raises_full)
    with pytest.raises(BenchError, match=r"cannot be written: .*No space left.*nothing is lost"):
        one.run(first)
    assert state.closed(one.out, first) is None


def test_a_disk_without_room_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="MiB left"):
        refuse_without_room(tmp_path / "a" / "b", needed=1 << 60)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """A machine on which `nightly` measures."""
    with turn("nightly (process 7)", tmp_path / "queue", lambda who: None):
        yield lambda: tmp_path / "queue"


def test_who_has_to_wait_is_told_behind_whom(held: Callable[[], Path]) -> None:
    told: list[str] = []
    with (
        pytest.raises(BenchError, match=r"still behind nightly \(process 7\) after 0.1 s"),
        turn("other", held(), told.append, timeout=0.1),
    ):
        pass
    assert ["nightly (process 7)"] == told


def test_the_next_one_begins_when_the_first_is_through(tmp_path: Path) -> None:
    file, order = tmp_path / "queue", []
    began = threading.Event()

    def second() -> None:
        with turn("second", file, lambda who: began.set(), timeout=20):
            order.append("second")

    with turn("first", file, lambda who: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert began.wait(10)
        order.append("first")
    thread.join(20)
    assert ["first", "second"] == order


def test_benchmarks_of_tests_have_a_queue_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = default_file()
    monkeypatch.delenv(VARIABLE)

    assert own != default_file()
    assert default_file().name.startswith("lockstep-bench.queue.")
