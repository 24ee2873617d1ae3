"""Somebody else's program under observation, to the verdict: nothing in it knows of Lockstep."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import ExitCode
from lockstep.runs import archive, external_program, observe
from lockstep.runs.node_collectors import NodeCollectors
from lockstep.terminal.output import CommandError
from lockstep.top.pages import commands
from lockstep.workloads.launch.launcher import Ending, Outcome
from lockstep.workloads.spec import Layout, RunSpec

PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
late = dist.get_rank() == 1
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps = int(sys.argv[1])
for step in range(steps):
    if late and step == int(sys.argv[2]):
        time.sleep(1000)
    time.sleep(0.02 + 0.1 * (late and step >= steps // 2))
    optimizer.zero_grad()
    model(torch.ones(4, 32)).sum().backward()
    optimizer.step()
dist.destroy_process_group()
"""
NEVER = "-1"


def observed(out: Path, workspace: Path, *arguments: str, patience: float):
    """What `lockstep run --exec` does around the launcher: collectors, recorder, archive."""
    program = out.parent / "program.py"
    program.write_text(PROGRAM)
    out.mkdir()
    command = (sys.executable, str(program), *arguments)
    spec = RunSpec(
        "exec-1", "exec", Layout(3, 1, 3), steps=0, seed=0, pace=False, hang_timeout=patience
    )
    nodes = [f"node-{index}" for index in range(3)]
    with NodeCollectors(nodes, workspace, out / "logs") as collectors:
        launcher = external_program.launcher(command, None, spec.run, workspace)
        programs = launcher.launch(spec, workspace, out / "logs")
        try:
            archive.write_ranks(out, spec)
            recorder = collectors.recorder(out, spec.run)
            recorder.start()
            outcome = programs.wait(lambda progress: None)
        finally:
            recorder.stop()
            programs.end()
    run = {
        "schema_version": 1, "run": spec.run, "ended": "2026-01-01T00:00:00+00:00",
        "outcome": {"ending": outcome.ending, "ranks": outcome.ranks, "reason": outcome.reason},
        "layout": {"world": 3, "nodes": 3, "ranks_per_node": 1, "dp": 3, "pp": 1, "tp": 1},
    }  # fmt: skip
    (out / "run.json").write_text(json.dumps(run))
    return outcome, programs


def test_who_looks_at_the_rings_finds_how_the_run_was_started(tmp_path):
    """As `lockstep top` does, without the words of faults and without secrets."""
    program = ("python", "train.py", "--token", "hunter2-abcdef")
    spec = RunSpec(
        "exec-1", "exec", Layout(3, 1, 3), steps=0, seed=0, pace=False, program=program, name="n"
    )
    observe._own(tmp_path / spec.run, spec)

    line = commands(tmp_path)[spec.run]
    assert line.startswith("lockstep run --exec --nodes 3")
    assert "--name n" in line
    assert "python train.py" in line
    assert "hunter2" not in line


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.timeout(900)
def test_a_slow_rank_of_a_program_that_was_not_changed_is_named(tmp_path, decided):
    def judged(attempt: int) -> list[str]:
        place = tmp_path / str(attempt)
        place.mkdir()
        out = place / "archive"
        outcome, programs = observed(out, place / "rings", "120", NEVER, patience=240.0)
        assert Ending.FINISHED is outcome.ending
        assert {"by torch's optimizer"} == set(programs.means.values())
        assert programs.own_time_known
        return [json.dumps(verdict_json(diagnose(load_archive(out)).verdict))]

    (verdict,) = decided(judged)

    assert [1] == [culprit["rank"] for culprit in verdict["culprits"]]


@pytest.mark.distributed
@pytest.mark.slow
@pytest.mark.timed
def test_the_rank_that_is_missing_in_a_hang_is_named_by_the_flight_recorder(tmp_path):
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch.distributed"], check=True)
    begins = time.monotonic() - began  # of one program, and here three begin at once
    out = tmp_path / "archive"
    outcome, _ = observed(out, tmp_path / "rings", "80", "20", patience=max(30.0, 9 * begins))

    assert (Ending.HANG, (1,)) == (outcome.ending, outcome.ranks)
    assert "rank 1 is missing from all_reduce" in outcome.reason


@pytest.mark.parametrize(
    ("places", "sizes"),
    [
        ({}, (4, 1, 1)),
        ({rank: (rank % 2, rank // 2, 0) for rank in range(4)}, (2, 2, 1)),
        ({rank: (0, 0, rank) for rank in range(4)}, (1, 1, 4)),
        ({0: (0, 0, 0)}, (4, 1, 1)),  # of the others nothing was heard
    ],
)
@pytest.mark.parametrize("ends", [True, False])
def test_the_layout_of_a_run_is_the_one_of_its_ranks(tmp_path, places, sizes, ends):
    spec = RunSpec("exec-1", "exec", Layout(2, 2, 4), steps=0, seed=0, pace=False)
    recording = archive.Recording(places=places)
    archive.write_so_far(tmp_path, spec, archive.now(), recording)
    if ends:
        archive.write_end(tmp_path, spec, archive.now(), Outcome(Ending.FINISHED), recording)
    archive.write_ranks(tmp_path, spec, places=places)
    layout = json.loads((tmp_path / "run.json").read_text())["layout"]
    ranks = pq.read_table(tmp_path / "ranks.parquet").to_pandas()[["dp", "pp", "tp"]]

    assert sizes == (layout["dp"], layout["pp"], layout["tp"])
    assert list(sizes) == (ranks.max() + 1).tolist()


@pytest.mark.parametrize(("means", "words"), [({}, "no step was seen"), ({"1": "by the log"}, "")])
def test_of_a_program_that_showed_no_step_it_is_said_with_what_would_help(tmp_path, means, words):
    (tmp_path / "run.json").write_text(json.dumps({"means": means}))
    told = external_program.unseen_steps(tmp_path, 2)

    assert told.startswith(words)
    assert bool(words) == ("--step-pattern" in told)


@pytest.mark.parametrize(
    ("command", "pattern", "sentence"),
    [
        ((), None, "--exec needs a command"),
        (("no-such-program",), None, "no-such-program is no program"),
        (("bash",), "(", "--step-pattern: '(' is not a regular expression"),
    ],
)
def test_a_command_that_cannot_run_is_a_usage_error(command, pattern, sentence):
    with pytest.raises(CommandError) as refused:
        external_program.check_command(command, pattern)

    assert ExitCode.USAGE == refused.value.code
    assert sentence in refused.value.sentence
