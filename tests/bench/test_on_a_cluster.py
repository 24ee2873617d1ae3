"""Cells on a cluster: their rows, and a whole benchmark as one Workflow."""

import json
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from lockstep.bench import measure, results, state
from lockstep.bench.fitting import refuse_what_cannot_run
from lockstep.bench.plan import cells
from lockstep.bench.runner import Runner
from lockstep.bench.spec import Bench, BenchError, parse, read
from lockstep.bench.workflow import workflow
from lockstep.commands.bench.here import LOCKSTEP
from lockstep.runs import on_cluster
from lockstep.terminal.output import Progress
from lockstep.workloads.launch.kubernetes import cluster_run
from lockstep.workloads.launch.kubernetes.conditions import Pod
from lockstep.workloads.launch.kubernetes.settings import Settings
from lockstep.workloads.spec import Layout, RunSpec
from tests.bench.cluster_double import DIGEST, Cluster
from tests.workloads.launch.kubernetes.conftest import AWAY, NAMESPACE, RUN

MEASURED = {
    "run": "inside", "archive": "/runs/x", "step_seconds": 0.25, "verdict": "healthy",
    "rank_own_seconds": [0.2, 0.21], "metric_p99": 1.5, "kernel": "6.8", "bench": "not yours",
    "steps": "many", "nonsense": 1,
}  # fmt: skip


def bench(launcher: str = "kubernetes", **more: Any) -> Bench:
    return parse({
        "bench": {"name": "Nightly.1", "launcher": launcher, "repeats": 2, "report": []},
        "workloads": {"gpt": {}}, "matrix": {"nodes": [1, 2], "images": ["r/i:1"]}, **more,
    })  # fmt: skip


def ran(tmp_path: Path, said: str, condition: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row of one cell on the double, and what `lockstep run` answered."""
    double = (sys.executable, "-m", "tests.bench.cluster_double", said, condition)
    out = tmp_path / "out"
    one = Runner(bench(), out, out / "results.parquet", tmp_path, double)
    cell = cells(one.bench)[1]
    told = one.run(cell)
    assert "finished" == told.status, told.reason
    [row] = results.read(one.table)
    launch = (out / cell.folder / "logs" / "launch.out").read_text()
    return row, json.loads(launch.splitlines()[-1])


def test_a_cell_on_a_cluster_has_the_speed_and_the_verdict_that_its_pods_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    line = json.dumps({"measured": MEASURED}, separators=(",", ":"))
    row, answer = ran(tmp_path, f"verdict: healthy\n{line}\n", "Complete")

    assert (0.25, "healthy", 1.5, "6.8") == (
        row["step_seconds"], row["verdict"], row["metric_p99"], row["kernel"])  # fmt: skip
    assert ("Nightly.1", None, ["a", "b"]) == (row["bench"], row["steps"], row["node_names"])
    assert (DIGEST, "lockstep-runs:/gpt-20260101T000000-abcd") == (
        row["image_digest"], row["archive"])  # fmt: skip
    assert [] == answer["there"]


def test_what_a_program_prints_beside_its_ranks_is_no_result_of_its_run() -> None:
    forged = '{"measured":{"step_seconds":0.001}}'
    pods = [Pod("r-worker-0", "worker", "a", "Succeeded", containers=("ranks", "collector")),
            Pod("r-launcher-x", "launcher", "a", "Succeeded", containers=("ranks",)),
            Pod("r-measure-1", "step", "a", "Succeeded", containers=("main",))]  # fmt: skip
    logs = {"r-worker-0.ranks": forged, "r-launcher-x.ranks": forged, "measure": "true",
            "r-measure-1.main": '{"measured":{"step_seconds":0.25}}'}  # fmt: skip

    assert {"step_seconds": 0.25} == on_cluster._result(on_cluster._without_programs(logs, pods))


def test_a_run_that_could_not_be_measured_is_finished_and_its_speed_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    row, answer = ran(tmp_path, "lockstep: no archive there", "Failed")

    assert (None, None) == (row["step_seconds"], row["verdict"])
    assert [] == answer["there"]


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"measured":[1],"nodes":3,"images":4}'])
def test_what_is_no_answer_tells_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "launch.out").write_text(text)

    assert {} == measure.of_cluster(tmp_path / "launch.out")
    assert {} == measure.of_cluster(tmp_path / "nowhere")


def test_a_benchmark_is_one_workflow_with_a_step_a_cell_that_go_on_after_a_failure() -> None:
    told = bench()
    whole = workflow(told, cells(told), "[bench]", "r/i:1", "team", "claim")
    every, cell = whole["spec"]["templates"]
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [cell["container"]], "volumes": whole["spec"]["volumes"],
            "securityContext": whole["spec"]["securityContext"],
            **json.loads(whole["spec"]["podSpecPatch"]),
        }}, "1.30", strict=True,
    )  # fmt: skip

    assert [("gpt,nodes=1", "0"), ("gpt,nodes=2", "0"), ("gpt,nodes=1", "1"),
            ("gpt,nodes=2", "1")] == [
        tuple(each["value"] for each in one["arguments"]["parameters"]) for [one] in every["steps"]
    ]  # fmt: skip
    assert all(one["continueOn"]["failed"] for [one] in every["steps"])
    assert 1 == whole["spec"]["parallelism"]
    assert "bench-nightly-1-" == whole["metadata"]["generateName"]
    assert "[bench]" == cell["inputs"]["artifacts"][0]["raw"]["data"]


@pytest.mark.parametrize(
    ("told", "image", "said"),
    [
        (bench("local"), "i", "launcher is local, and a Workflow's cells need kubernetes or argo"),
        (bench(), "", "no image is named"),
        (bench(steps=[{"name": "x", "after": "wait", "container": {"image": "i"}}]), "i",
         "step x is a container"),
    ],
)  # fmt: skip
def test_what_can_be_no_workflow_is_refused(told: Bench, image: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        workflow(told, cells(told), "", image, "n", "c")


def test_a_file_in_which_argo_would_see_variables_is_refused() -> None:
    with pytest.raises(BenchError, match="which Argo takes for a variable"):
        workflow(bench(), cells(bench()), 'command = ["echo", "{{}}"]', "i", "n", "c")


def test_a_run_that_ended_keeps_its_logs_where_its_measuring_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> tuple[str, str]:
        signal.raise_signal(signal.SIGINT)
        return "", "nobody came"

    monkeypatch.setattr(on_cluster, "measured", interrupted)
    monkeypatch.setattr(cluster_run, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(cluster_run, "GONE_SECONDS", 1.0)
    cluster = Cluster("", "Complete")
    spec = RunSpec(RUN, "gpt", Layout(2, 1, 2), 20, 0, device="cpu", pace=False)
    settings = Settings("r/i:1", "r/lockstep-watch:1", measured=True)
    answer = on_cluster.run(cluster, spec, settings, tmp_path / "out", Progress())

    assert (130, "finished") == (answer.code, answer.tree["ending"])
    assert (tmp_path / "out" / "logs").is_dir()
    assert not [path for path in cluster.objects if "mpijobs/" in path]


def test_a_cell_that_is_none_is_refused_with_those_that_are(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "b.toml").write_text(
        '[bench]\nname = "n"\n[workloads.gpt]\n[matrix]\nnodes = [1, 2]\n'
    )
    for words in (("--cell", "gpt"), ("--repeat", "1"), ("--cell", "gpt,nodes=1", "--repeat", "1")):
        told = lockstep("bench", "run", tmp_path / "b.toml", *words, "--dry-run")
        assert 64 == told.code
        assert f"{' '.join(words[-2:])} is none" in told.err
        assert "its cells are gpt,nodes=1, gpt,nodes=2, each 1 times" in told.err


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 2 * 900 + 60 + 3600), ({"start-timeout": 100}, 2 * 100 + 60 + 3600),
        ({"queue": "gpus"}, None),
        ({"queue": "gpus", "queue_timeout": 1000}, 2 * (1000 + 900) + 60 + 3600),
    ],
)  # fmt: skip
def test_the_pod_of_a_cell_has_no_limit_that_counts_an_endless_queue(
    options: dict[str, Any], seconds: int | None
) -> None:
    head = {"name": "n", "launcher": "kubernetes", "timeout": 60, "options": options}
    told = parse({
        "bench": head, "workloads": {"gpt": {}}, "matrix": {"images": ["r/i:1"]},
    })  # fmt: skip
    whole = workflow(told, cells(told), "", "r/i:1", "n", "c")

    assert "activeDeadlineSeconds" not in whole["spec"]
    assert seconds == whole["spec"]["templates"][1].get("activeDeadlineSeconds")


@pytest.mark.parametrize("limit", ["ten", math.inf, -1])
def test_a_limit_of_a_workflow_that_is_no_number_is_told(limit: object) -> None:
    head = {"name": "n", "launcher": "argo", "timeout": 60, "options": {"start-timeout": limit}}
    told = parse({
        "bench": head, "workloads": {"gpt": {}}, "matrix": {"images": ["r/i:1"]},
    })  # fmt: skip

    with pytest.raises(BenchError, match=r"start-timeout is .* number of seconds, 0 or more"):
        workflow(told, cells(told), "", "r/i:1", "n", "c")


TWO_NODES = """
[bench]
name = "n"
launcher = "{launcher}"
options = {{{options}}}
[workloads.gpt]
[matrix]
nodes = [2]
images = ["r/lockstep-workloads:1"]
"""


@pytest.mark.parametrize(
    ("launcher", "options", "code", "said"),
    [
        ("kubernetes", "", 65, "the run wants 2 nodes with 1 nvidia.com/gpu and"),
        ("argo", "", 69, "cell gpt cannot run: the cluster knows no Workflow"),
        ("kubernetes", 'kind = "jobs"', 65, "did you mean job?"),
        ("kubernetes", 'queue-timeout = "long"', 65, "queue-timeout is 'long'; it must be a numb"),
        ("kubernetes", "queue_timeout = 5", 65, "--queue-timeout is about --queue"),
        ("kubernetes", 'namespace = "other"', 65, "the cluster has no namespace other"),
    ],
)
def test_what_a_cluster_can_never_run_is_refused_before_any_cell_starts(
    lockstep: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    launcher: str, options: str, code: int, said: str,
) -> None:  # fmt: skip
    cluster = Cluster("", "Complete")
    del cluster.objects["/api/v1/nodes/b"]
    monkeypatch.setattr(cluster, "close", lambda: None, raising=False)
    monkeypatch.setattr(on_cluster, "connect", lambda *_: cluster)
    (tmp_path / "b.toml").write_text(TWO_NODES.format(launcher=launcher, options=options))
    told = lockstep("bench", "run", tmp_path / "b.toml", "--out", tmp_path / "o")

    assert (code, True) == (told.code, said in told.err), told.err
    assert not (tmp_path / "o").exists()


def test_a_cluster_that_does_not_answer_is_told_before_any_cell_starts(
    lockstep: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster("", "Complete")
    cluster.fails = [AWAY]
    monkeypatch.setattr(cluster, "close", lambda: None, raising=False)
    monkeypatch.setattr(on_cluster, "connect", lambda *_: cluster)
    (tmp_path / "b.toml").write_text(TWO_NODES.format(launcher="kubernetes", options=""))
    told = lockstep("bench", "run", tmp_path / "b.toml", "--out", tmp_path / "o")

    assert 69 == told.code
    assert "cell gpt cannot run: the API server x does not answer: refused" in told.err


def test_a_cluster_is_asked_once_for_all_cells_that_ask_the_same_of_it(
    lockstep: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster("", "Complete")
    monkeypatch.setattr(cluster, "close", lambda: None, raising=False)
    monkeypatch.setattr(on_cluster, "connect", lambda *_: cluster)
    text = TWO_NODES.format(launcher="kubernetes", options="")
    (tmp_path / "b.toml").write_text(text.replace("[2]", "[1, 2, 3]"))
    told = lockstep("bench", "run", tmp_path / "b.toml", "--out", tmp_path / "o")

    assert (65, True) == (told.code, "cell gpt,nodes=3 cannot run: the run wants 3" in told.err)
    assert 1 == cluster.asked.count("GET /api/v1/nodes")


def test_a_quota_that_others_use_now_stops_no_benchmark_and_one_too_small_for_ever_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, what = Cluster("", "Complete"), "requests.nvidia.com/gpu"
    monkeypatch.setattr(cluster, "close", lambda: None, raising=False)
    monkeypatch.setattr(on_cluster, "connect", lambda *_: cluster)
    told = bench()
    quota = {"metadata": {"name": "team"}, "status": {"hard": {what: "2"}, "used": {what: "2"}}}
    cluster.objects[f"{NAMESPACE}/resourcequotas/team"] = quota
    refuse_what_cannot_run(told, cells(told), lambda *_: None, set())
    quota["status"]["hard"] = {what: "1"}
    said = f"gpt,nodes=2 cannot run: .* leaves 1 of 1 {what}, and the run needs 2; [^,]*$"
    with pytest.raises(BenchError, match=said):
        refuse_what_cannot_run(told, cells(told), lambda *_: None, set())


def test_a_benchmark_with_nothing_left_to_do_asks_no_cluster(
    lockstep: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, out = Cluster("", "Complete"), tmp_path / "o"
    cluster.fails = [AWAY]
    monkeypatch.setattr(cluster, "close", lambda: None, raising=False)
    monkeypatch.setattr(on_cluster, "connect", lambda *_: cluster)
    (tmp_path / "b.toml").write_text(TWO_NODES.format(launcher="kubernetes", options=""))
    one = Runner(read(tmp_path / "b.toml"), out, out / state.RESULTS, tmp_path, LOCKSTEP)
    [cell] = cells(one.bench)
    (out / cell.folder).mkdir(parents=True)
    state.close(out, cell, state.Closed("finished", "", one.mark(cell), {}))
    told = lockstep("bench", "run", tmp_path / "b.toml", "--out", out)

    assert (0, True) == (told.code, "gpt repeat 0: finished before" in told.out), told.err
    state.close(out, cell, state.Closed("failed", "", one.mark(cell), {}))
    assert 69 == lockstep("bench", "run", tmp_path / "b.toml", "--out", out).code
