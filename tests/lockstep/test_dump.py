"""`lockstep dump`: who is missing from which collective, of a run that is still there."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import ring
from lockstep.collector.contract.flight_recorder import dump_name, request_name
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.on_demand.dumps import ranks_below, request_dumps
from lockstep.workloads.launch.local import LocalLauncher
from lockstep.workloads.ring import Identity, RingWriter
from lockstep.workloads.spec import Layout, RunSpec


@pytest.fixture
def ranks(tmp_path):
    """Two ranks of one run that live in this process."""
    writers = [
        RingWriter(
            tmp_path / "gpt-1" / f"node-{rank}" / ring.file_name(rank),
            Identity(
                "gpt-1", f"node-{rank}", "", rank, 2, 0, 0, rank, 0, 0, -1,
                start_wall_ns=0, wall_minus_monotonic_ns=0,
            ),
        )
        for rank in range(2)
    ]  # fmt: skip
    yield writers
    for writer in writers:
        writer.close()


def told(enqueued: int, completed: int) -> str:
    entries = [
        {
            "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": number,
            "profiling_name": "gloo:all_reduce", "state": "scheduled", "retired": False,
            "time_created_ns": time.time_ns() - 7_000_000_000,
        }
        for number in range(completed + 1, enqueued + 1)
    ]  # fmt: skip
    status = {"last_enqueued_collective": str(enqueued), "last_started_collective": "-1",
              "last_completed_collective": str(completed)}  # fmt: skip
    return json.dumps({"version": "2.10", "entries": entries, "pg_status": {"0": status}})


@pytest.fixture
def answers(ranks) -> Iterator[dict[int, str]]:
    """What each rank writes when it is asked; a rank without an entry does not answer."""
    what: dict[int, str] = {}
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.02):
            for rank, text in what.items():
                folder = ranks[rank].path.parent
                if (folder / request_name("gpt-1")).exists():
                    (folder / ".hidden").write_text(text)
                    (folder / ".hidden").replace(folder / dump_name("gpt-1", rank))

    thread = threading.Thread(target=beat)
    thread.start()
    yield what
    stop.set()
    thread.join()


def test_the_rank_that_did_not_arrive_is_named(lockstep, answers, tmp_path):
    answers |= {0: told(57, 56), 1: told(56, 56)}
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path)
    header, first, second = answer.out.splitlines()[:3]

    assert ExitCode.OK == answer.code
    assert ["rank", "node", "group", "enqueued", "started", "completed", "inside"] == header.split()
    assert ["0", "node-0", "world", "57", "-", "56", "all_reduce", "for", "7"] == (
        first.replace(".", " ").split()[:9]
    )
    assert ["1", "node-1", "world", "56", "-", "56"] == second.split()
    assert "Rank 1 is missing from all_reduce 57 of group world; others have waited" in answer.out


def test_nobody_is_missing_and_no_request_is_left(lockstep, answers, tmp_path):
    answers |= {0: told(57, 57), 1: told(57, 57)}
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path)

    assert "No rank is missing from a collective." in answer.out
    assert [] == list(tmp_path.rglob("dump-*"))


def test_a_rank_that_does_not_answer_is_missing_and_the_table_says_why(lockstep, answers, tmp_path):
    answers |= {0: told(57, 56)}
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--timeout", "0.3", "-o", "json")
    tree = json.loads(answer.out)

    assert [[], [1]] == [tree["ranks"][1]["groups"], tree["missing"][0]["missing_ranks"]]
    assert ("world", 57, "all_reduce") == tuple(
        tree["missing"][0][key] for key in ("group", "sequence", "op")
    )
    assert "did not answer" in tree["ranks"][1]["why"]


def test_a_broken_dump_is_named_and_the_others_stand(lockstep, answers, tmp_path):
    answers |= {0: told(57, 57), 1: "no dump"}
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--timeout", "0.5")

    assert ExitCode.OK == answer.code
    assert "neither a pickle nor JSON" in answer.out


def test_dumps_are_kept_with_what_else_is_known_and_judged_together(lockstep, answers, tmp_path):
    answers |= {0: told(57, 56), 1: told(56, 56)}
    out = tmp_path / "sent"
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--out", out, "-o", "json")
    again = lockstep("hang", out, "--json", "--limit", "5")
    evidence = json.loads((out / "evidence.json").read_text())

    assert "waiting" == json.loads(answer.out)["verdict"]["status"]
    assert (ExitCode.CULPRIT, [1]) == (
        again.code, [one["rank"] for one in json.loads(again.out)["culprits"]]
    )  # fmt: skip
    assert {"0", "1"} == evidence["written"].keys()
    assert {"process-state", "heartbeat-age"} == {one["kind"] for one in evidence["facts"]}


def test_stacks_are_taken_where_they_are_asked_for_and_told_again(lockstep, answers, tmp_path):
    """Both ranks are this process, which py-spy reads without stopping it."""
    answers |= {0: told(57, 56), 1: told(56, 56)}
    out = tmp_path / "sent"
    answer = lockstep(
        "dump", "gpt-1", "--dir", tmp_path, "--out", out, "--stacks", "--stack-timeout", "60"
    )
    again = json.loads(lockstep("hang", out, "--json", "--limit", "5").out)
    evidence = json.loads((out / "evidence.json").read_text())

    assert ExitCode.OK == answer.code
    assert "ranks 0-1" in answer.out
    assert again["stacks"]["sentence"].startswith("Rank 1 stands in `")
    assert {0, 1} == {one["rank"] for one in evidence["facts"] if one["kind"] == "stack"}
    assert [0, 1] == [one["rank"] for one in json.loads((out / "stacks.json").read_text())["ranks"]]


def test_what_an_earlier_dump_left_in_the_folder_is_not_told_as_of_now(lockstep, answers, tmp_path):
    answers |= {0: told(57, 56)}
    out = tmp_path / "sent"
    out.mkdir()
    for name in ("dump_1", "dump_7", "stacks.json", "notes"):
        (out / name).write_text("old")
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--timeout", "0.5", "--out", out)

    assert ExitCode.OK == answer.code
    assert {"dump_0", "evidence.json", "notes"} == {path.name for path in out.iterdir()}


def test_ranks_that_gave_no_dump_are_asked_for_their_stacks_all_the_same(lockstep, ranks, tmp_path):
    out = tmp_path / "sent"
    answer = lockstep(
        "dump", "gpt-1", "--dir", tmp_path, "--timeout", "0.2", "--out", out, "--stacks",
        "--stack-timeout", "60", "-o", "json",
    )  # fmt: skip
    tree = json.loads(answer.out)["verdict"]
    again = lockstep("hang", out, "--json")

    assert ExitCode.OK == answer.code
    assert "unknown" == tree["status"]
    assert {"py-spy"} == {one["reader"] for one in tree["stacks"]["ranks"]}
    assert (ExitCode.UNKNOWN, tree["stacks"]) == (again.code, json.loads(again.out)["stacks"])


def test_without_the_flag_nobody_is_asked_where_it_stands(lockstep, answers, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.collector.on_demand.stacks.read_stacks", None)
    answers |= {0: told(57, 56), 1: told(56, 56)}
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--out", tmp_path / "sent", "-o", "json")

    assert json.loads(answer.out)["verdict"]["stacks"] is None
    assert not (tmp_path / "sent" / "stacks.json").exists()


def test_an_unknown_run_is_named_with_those_that_are_there(lockstep, ranks, tmp_path):
    answer = lockstep("dump", "gpt-2", "--dir", tmp_path)

    assert ExitCode.UNREACHABLE == answer.code
    assert "no rank of run gpt-2" in answer.err
    assert "runs there: gpt-1" in answer.err


def test_a_path_is_no_run(lockstep, tmp_path):
    answer = lockstep("dump", "../gpt-1", "--dir", tmp_path)

    assert ExitCode.USAGE == answer.code
    assert "is no name of a run" in answer.err


@pytest.fixture
def helpers(ranks) -> Iterator[None]:
    """The helper thread of each rank: none is called frozen because this machine is busy."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.1):
            for writer in ranks:
                writer.heartbeat()

    thread = threading.Thread(target=beat)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_ranks_that_all_stay_silent_are_an_error_with_the_reason(lockstep, helpers, tmp_path):
    answer = lockstep("dump", "gpt-1", "--dir", tmp_path, "--timeout", "0.2")

    assert ExitCode.UNREACHABLE == answer.code
    assert "rank 0: it did not answer" in answer.err


class ClockUntil(SystemClock):
    """Time is up at the second wait after the thread has ended."""

    def __init__(self, thread: threading.Thread) -> None:
        self.thread, self.waits = thread, 0

    def monotonic(self) -> float:
        up = self.waits > 1
        self.waits = -1000 if up else self.waits
        return super().monotonic() + (100.0 if up else 0.0)

    def sleep(self, seconds: float) -> None:
        self.waits += not self.thread.is_alive()
        super().sleep(seconds)


def test_a_rank_that_answers_its_pipe_at_once_has_answered(ranks, tmp_path, monkeypatch):
    environ = tmp_path / "proc" / str(os.getpid()) / "environ"
    environ.parent.mkdir(parents=True)
    environ.write_text(
        f"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=x\0TORCH_FR_DUMP_TEMP_FILE={tmp_path}/trace_\0"
    )

    def answer(_prefix: str, rank: int, _user: int | None) -> None:
        (tmp_path / f"trace_{rank}").write_text(told(57, 57))
        time.sleep(0.05)

    monkeypatch.setattr("lockstep.collector.on_demand.dumps.request_dump", answer)
    found = ranks_below(tmp_path, Path("/proc"), SystemClock())
    answers = request_dumps(found, tmp_path / "proc", SystemClock(), 0.5)

    assert [True, True] == [one.dump is not None for one in answers.ranks]


def test_a_rank_whose_heart_beats_is_not_called_frozen(ranks, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.collector.on_demand.dumps.FROZEN_SECONDS", 0.4)
    found = ranks_below(tmp_path, Path("/proc"), SystemClock())

    class Beating(SystemClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            ranks[0].heartbeat()

    answers = request_dumps(found, Path("/proc"), Beating(), 0.6)

    assert "did not answer" in answers.ranks[0].why
    assert "frozen" in answers.ranks[1].why


def test_a_rank_of_nccl_is_asked_through_its_pipe(ranks, tmp_path):
    """Rank 0 has a pipe and answers in pieces, as torch writes; rank 1 has none."""
    environ = tmp_path / "proc" / str(os.getpid()) / "environ"
    environ.parent.mkdir(parents=True)
    variables = {"PIPE_FILE": tmp_path / "ask_", "TEMP_FILE": tmp_path / "trace_"}
    environ.write_text(
        "".join(f"TORCH_NCCL_DEBUG_INFO_{name}={path}\0" for name, path in variables.items())
    )
    os.mkfifo(tmp_path / "ask_0.pipe")
    pipe = os.open(tmp_path / "ask_0.pipe", os.O_RDWR)

    def answer() -> None:
        assert os.read(pipe, 100)
        text = told(57, 56)
        with (tmp_path / "trace_0").open("w") as file:
            for half in (text[:90], text[90:]):
                file.write(half)
                file.flush()
                time.sleep(0.1)

    thread = threading.Thread(target=answer)
    thread.start()
    found = ranks_below(tmp_path, Path("/proc"), SystemClock())
    answers = request_dumps(found, tmp_path / "proc", ClockUntil(thread), 10.0)
    thread.join()
    os.close(pipe)

    assert [57, None] == [one.dump and one.dump.groups[0].enqueued for one in answers.ranks]
    assert "ask_1.pipe does not exist" in answers.ranks[1].why
    assert [(57, (1,))] == [(one.sequence, one.silent) for one in answers.missing]


@pytest.mark.distributed
@pytest.mark.timed
def test_a_stopped_rank_of_a_real_run_is_the_one_that_is_missing(lockstep, tmp_path):
    """The ranks are those of `lockstep run`; rank 1 is stopped as a debugger would stop it."""
    spec = RunSpec("gpt-1", "gpt", Layout(dp=2, nodes=2, ranks_per_node=1), 100_000, 0)
    workspace = tmp_path / "gpt-1"
    workspace.mkdir()
    ranks = LocalLauncher().launch(spec, workspace, tmp_path / "logs")
    try:
        pids = _training(workspace)
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(1.2)
        said = lockstep("dump", "gpt-1", "--dir", tmp_path, "--timeout", "1.5", "-o", "json")
    finally:
        ranks.end()
    assert ExitCode.OK == said.code, said.err
    (missing,) = json.loads(said.out)["missing"]

    assert ("world", "all_reduce", [1]) == (
        missing["group"], missing["op"], missing["missing_ranks"],
    )  # fmt: skip


def _training(workspace: Path) -> dict[int, int]:
    """Process ids of both ranks, once they have completed a step."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.05)
        headers = [
            path.read_bytes()[: ring.HEADER_BYTES] for path in workspace.glob("node-*/rank-*.ring")
        ]
        steps = [ring.COUNTERS.unpack_from(each, ring.COUNTERS_OFFSET)[0] for each in headers]
        if len(steps) == 2 and min(steps) > 0:
            identities = [ring.IDENTITY.unpack_from(each) for each in headers]
            return {fields[6]: fields[10] for fields in identities}
    pytest.fail("the run did not begin within 60 s")
