"""`run --launcher kubernetes`: what is refused before it starts, and what is told at its end."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from lockstep.runs import cluster_options, on_cluster
from lockstep.runs.planning import plan, with_training_settings
from lockstep.terminal.output import CommandError, Progress
from lockstep.workloads.launch.kubernetes import cluster_run
from lockstep.workloads.launch.kubernetes.cluster import RefusedError
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.spec import Layout, RunSpec
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, FakeCluster, claim, node

Lockstep = Callable[..., Any]
RUN = "gpt-20260101T000000-abcd"
NAME = RUN.lower()
SPEC = RunSpec(RUN, "gpt", Layout(2, 1, 2), 20, 0, device="cuda", pace=False)
SETTINGS = Settings("r/lockstep-workloads:1", "r/lockstep-watch:1")
JOB = f"/apis/kubeflow.org/v2beta1/namespaces/lockstep-runs/mpijobs/{NAME}"
WORDS = ("gpt", "--launcher", "kubernetes", "--image", "r/i:1")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(cluster_run, "GONE_SECONDS", 0.2)


class Ending(FakeCluster):
    """A cluster whose run ends by itself: two workers, a launcher with a log, a condition."""

    def __init__(self, condition: str, log: str = "") -> None:
        super().__init__({
            NAMESPACE: {"metadata": {"name": "lockstep-runs"}},
            f"{NAMESPACE}/persistentvolumeclaims/lockstep-runs": claim(),
            "/apis/kubeflow.org/v2beta1": {"resources": [{"name": "mpijobs"}]},
            "/api/v1/nodes/a": node("a"), "/api/v1/nodes/b": node("b"),
        })  # fmt: skip
        self.condition, self.log = condition, log
        self.before = set(self.objects)

    def create(self, path: str, manifest: Any) -> dict[str, Any]:
        made = super().create(path, manifest)
        if manifest["kind"] == "MPIJob":
            ended = {"type": self.condition, "status": "True", "message": "it ended"}
            self.objects[JOB]["status"] = {"conditions": [ended]}
            for index, where in enumerate("ab"):
                self.pod(f"{NAME}-worker-{index}", node=where)
            self.pod(f"{NAME}-launcher-x", role="launcher", node="a")
            for pod in (f"{NAME}-worker-0", f"{NAME}-worker-1", f"{NAME}-launcher-x"):
                log = self.log if "launcher" in pod else ""
                self.objects[f"{NAMESPACE}/pods/{pod}/log"] = {"log": log, "metadata": {
                    "ownerReferences": [{"uid": made["metadata"]["uid"]}], "uid": pod,
                }}  # fmt: skip
        return made


def put(cluster: FakeCluster, out: Path, settings: Settings = SETTINGS) -> on_cluster.Answer:
    return on_cluster.run(cluster, SPEC, settings, out, Progress())


def test_a_run_that_succeeds_brings_its_logs_and_the_launchers_answer(tmp_path: Path) -> None:
    answer = json.dumps({"run": RUN, "ending": "crash", "ranks": [1], "reason": "as asked"})
    cluster = Ending("Succeeded", f"starting: 2 ranks\n{answer}\n")
    told = put(cluster, tmp_path / "o")

    assert (0, "") == (told.code, told.failure)
    assert ("crash", [1], "as asked") == tuple(
        told.tree[each] for each in ("ending", "ranks", "reason")
    )
    assert f"lockstep-runs:/{RUN}" == told.tree["archive"]
    assert {f"{NAME}-worker-0": "a", f"{NAME}-worker-1": "b"} == told.tree["nodes"]
    log = tmp_path / "o" / "logs" / f"{NAME}-launcher-x.ranks.log"
    assert answer in log.read_text()
    assert cluster.before == set(cluster.objects)


def test_a_failed_run_tells_what_its_launcher_said(tmp_path: Path) -> None:
    said = "the archive /runs/x cannot be written: [Errno 28] No space left on device"
    told = put(Ending("Failed", f"lockstep: {said}\n"), tmp_path / "o")

    assert 70 == told.code
    assert f"the run {RUN} failed: it ended; {said}; logs of its pods are in" in told.failure


class LateChain(Ending):
    """A chain whose run has ended as its launcher says, and whose analysis took too long."""

    def create(self, path: str, manifest: Any) -> dict[str, Any]:
        made = super().create(path, manifest)
        if manifest["kind"] == "Workflow":
            self.objects[f"{path}/{NAME}"]["status"] = {"phase": "Failed", "message": "child"}
            self.pod(f"{NAME}-run-1", role="step", node="a", phase="Succeeded")
            self.pod(f"{NAME}-analyze-2", role="step", node="a", phase="Failed",
                     reason="DeadlineExceeded", message="Pod was active too long")  # fmt: skip
            self.objects[f"{NAMESPACE}/pods/{NAME}-run-1/log"] = {"log": self.log, "metadata": {
                "ownerReferences": [{"uid": made["metadata"]["uid"]}], "uid": "log"}}  # fmt: skip
        return made


@pytest.mark.parametrize(
    ("by_launcher", "ending"), [("finished", "failed"), ("timeout", "timeout"), (None, "timeout")]
)
def test_a_late_analysis_of_a_chain_is_no_timeout_of_its_run(
    tmp_path: Path, by_launcher: str | None, ending: str
) -> None:
    answer = json.dumps({"run": RUN, "ending": by_launcher}) if by_launcher else ""
    cluster = LateChain("Succeeded", answer)
    for group, plural in (("argoproj.io/v1alpha1", "workflows"), ("batch/v1", "jobs")):
        cluster.objects[f"/apis/{group}"] = {"resources": [{"name": plural}]}
    told = put(cluster, tmp_path / "o", replace(SETTINGS, chain=True))

    assert (70, ending) == (told.code, told.tree["ending"])
    assert f"step {NAME}-analyze-2 on node a failed: DeadlineExceeded" in told.tree["reason"]


def test_what_cannot_be_deleted_is_told_with_the_command_that_does(tmp_path: Path) -> None:
    cluster = Ending("Succeeded")
    cluster.delete = lambda path, uid="": None  # type: ignore[method-assign]
    told = put(cluster, tmp_path / "o")

    assert 70 == told.code
    assert f"kubectl -n lockstep-runs delete mpijobs.kubeflow.org {NAME}" in told.failure


def test_a_pod_that_ends_late_needs_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Ending("Succeeded")
    delete = cluster.delete

    def late(path: str, uid: str = "") -> None:
        pod = cluster.objects[f"{NAMESPACE}/pods/{NAME}-worker-0"]
        delete(path, uid)
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        cluster.objects[f"{NAMESPACE}/pods/{NAME}-worker-0"] = pod

    cluster.delete = late  # type: ignore[method-assign]
    told = put(cluster, tmp_path / "o")

    assert (0, "", "") == (told.code, told.failure, told.tree["left"])
    said = capsys.readouterr().err
    assert f"deleted; not yet reported as ended: {NAME}-worker-0 on node a" in said


def test_a_pod_that_ends_late_after_an_interrupt_is_left_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def ends_late(run: cluster_run.ClusterRun) -> bool:
        run.leaving = run._look()[1]
        return False

    monkeypatch.setattr(cluster_run.ClusterRun, "wait", interrupt)
    monkeypatch.setattr(cluster_run.ClusterRun, "end", ends_late)
    told = put(Ending("Succeeded"), tmp_path / "o")

    assert 130 == told.code
    assert "its pods have not ended yet" in told.tree["left"]
    assert f"kubectl -n lockstep-runs delete mpijobs.kubeflow.org {NAME}" in told.tree["left"]


def test_an_interrupt_deletes_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    cluster = Ending("Succeeded")
    monkeypatch.setattr(cluster_run.ClusterRun, "wait", interrupt)
    told = put(cluster, tmp_path / "o")

    assert (130, "interrupted", "") == (told.code, told.tree["ending"], told.tree["reason"])
    assert cluster.before == set(cluster.objects)


def test_an_interrupt_while_logs_are_fetched_deletes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Ending("Succeeded")
    monkeypatch.setattr(
        cluster, "text", lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), sleep(30))
    )
    told = put(cluster, tmp_path / "o")

    assert (130, "interrupted", "") == (told.code, told.tree["ending"], told.tree["reason"])
    assert cluster.before == set(cluster.objects)


def test_whatever_goes_wrong_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AttributeError("an import that Ctrl-C broke")

    cluster = Ending("Succeeded")
    monkeypatch.setattr(cluster_run.ClusterRun, "wait", broken)
    with pytest.raises(AttributeError):
        put(cluster, tmp_path / "o")

    assert cluster.before == set(cluster.objects)


def test_a_namespace_that_forbids_host_paths_keeps_rings_in_the_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Ending("Succeeded")
    cluster.objects[NAMESPACE]["metadata"]["labels"] = {
        "pod-security.kubernetes.io/enforce": "restricted"
    }
    kept: list[Any] = []
    create = cluster.create
    cluster.create = lambda path, each: (kept.append(each), create(path, each))[1]  # type: ignore[method-assign]
    put(cluster, tmp_path / "o")

    assert "hostPath" not in json.dumps(kept)
    assert "the collectors of the nodes do not see the ranks" in capsys.readouterr().err


def test_what_can_never_be_scheduled_creates_nothing(tmp_path: Path) -> None:
    cluster = Ending("Succeeded")
    del cluster.objects["/api/v1/nodes/b"]

    with pytest.raises(CommandError, match="wants 2 nodes with 1 "):
        put(cluster, tmp_path / "o")
    assert not (tmp_path / "o").exists()
    assert JOB not in cluster.objects


def test_a_name_that_is_taken_is_told_and_the_first_run_stays(tmp_path: Path) -> None:
    cluster = Ending("Succeeded")
    cluster.objects[JOB] = {"metadata": {"name": NAME, "uid": "another"}}
    with pytest.raises(CommandError) as told:
        put(cluster, tmp_path / "o")

    assert 64 == told.value.code
    assert (
        f"a run of that name is already there: MPIJob {NAME} in namespace lockstep-runs; start"
        " again without --run-id, or end that one: kubectl -n lockstep-runs delete"
        f" mpijobs.kubeflow.org {NAME}"
    ) == str(told.value)
    assert JOB in cluster.objects


def test_a_run_that_is_refused_when_created_tells_nobody_to_delete_something(
    tmp_path: Path,
) -> None:
    cluster = Ending("Succeeded")
    cluster.create = refused(cluster.create)  # type: ignore[method-assign]
    with pytest.raises(CommandError, match="not valid") as told:
        put(cluster, tmp_path / "o")

    assert "kubectl" not in str(told.value)


def refused(create: Any) -> Any:
    def other(path: str, manifest: Any) -> Any:
        if manifest["kind"] == "MPIJob":
            raise RefusedError(422, "not valid")
        return create(path, manifest)

    return other


def test_an_interrupt_while_it_is_created_is_heeded_when_it_is_there(tmp_path: Path) -> None:
    cluster = Ending("Succeeded")
    create = cluster.create

    def interrupted(path: str, manifest: Any) -> Any:
        if manifest["kind"] == "MPIJob":
            signal.raise_signal(signal.SIGTERM)
        return create(path, manifest)

    cluster.create = interrupted  # type: ignore[method-assign]
    told = put(cluster, tmp_path / "o")

    assert 130 == told.code
    assert f"POST {JOB.rpartition('/')[0]}" in cluster.asked
    assert cluster.before == set(cluster.objects)


def test_an_account_that_may_see_little_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Ending("Succeeded")
    read = cluster.read

    def forbids(path: str, **query: str) -> Any:
        if path in (NAMESPACE, "/api/v1/nodes") or path.endswith("/resourcequotas"):
            raise RefusedError(403, "forbidden")
        return read(path, **query)

    cluster.read = forbids  # type: ignore[method-assign]
    told = put(cluster, tmp_path / "o")

    assert 0 == told.code
    said = "for this account may not list nodes (whether there is room), list resourcequotas"
    assert said in capsys.readouterr().err


def test_the_chain_launches_the_run_from_inside_with_all_that_was_asked() -> None:
    chain = replace(
        SETTINGS, chain=True, kind=Kind.JOB, namespace="team", claim="mine", host_rings=False,
        submission="m4rk",
    )  # fmt: skip
    words = " ".join(on_cluster.command(SPEC, chain))

    assert "--launcher kubernetes" in words
    assert "--rings pod --submission m4rk" in words
    assert "--namespace team --kind job --claim mine" in words
    assert f"--out /runs/{RUN}.launch --run-id {RUN}" in words


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("r.example:5000/a/lockstep-workloads:1", "r.example:5000/a/lockstep-watch:1"),
        ("lockstep-workloads", "lockstep-watch"),
        ("lockstep-workloads-2/lockstep-workloads:1", "lockstep-workloads-2/lockstep-watch:1"),
    ],
)  # fmt: skip
def test_the_analyzers_image_is_that_beside_the_ranks(image: str, expected: str) -> None:
    assert expected == cluster_options.analyzer_beside(image)


@pytest.mark.parametrize(
    "image",
    [
        f"r/lockstep-workloads@sha256:{'0' * 64}", f"r/lockstep-workloads:1@sha256:{'0' * 64}",
        "r/trainer:1", "r/lockstep-workloads-mine:1", "lockstep-workloads/other",
    ],
)  # fmt: skip
def test_an_analyzers_image_that_cannot_be_told_is_asked_for(image: str) -> None:
    with pytest.raises(CommandError, match="give --analyzer-image REGISTRY/lockstep-watch:TAG"):
        options(image=image)
    given = options(image=image, analyzer_image="r/mine:2")

    assert "r/mine:2" == given.analyzer_image


def options(launcher: str = "argo", **given: Any) -> Settings:
    usual: dict[str, Any] = {
        "namespace": "n", "claim": "c", "timeout": 60.0, "start_timeout": 60.0,
    }  # fmt: skip
    chosen = cluster_options.ClusterOptions(**{**usual, **given})
    return cluster_options.settings(launcher, chosen)


def test_every_launch_has_a_mark_of_its_own_and_a_step_that_of_its_chain() -> None:
    one, two = (options("kubernetes", image="r/i:1") for _ in range(2))
    step = options("kubernetes", image="r/i:1", submission=one.submission, rings="pod")

    assert one.submission != two.submission
    assert (one.submission, True, False) == (step.submission, step.step, step.host_rings)
    assert (False, True) == (one.step, one.host_rings)


@pytest.mark.parametrize("chain", [False, True])
def test_a_checkpoint_on_the_claim_is_looked_at_by_the_launcher_in_its_pod(chain: bool) -> None:
    place = "/runs/gpt-1/checkpoints"
    launcher = "argo" if chain else "kubernetes"
    spec = plan(
        "gpt", nodes=2, ranks_per_node=1, steps=40, seed=0, launcher=launcher, token="abcd",
        faults=["compute:rank=1,factor=2,from=30"],
        training=with_training_settings("gpt", {"resume": place}),
    )  # fmt: skip
    inner = on_cluster.command(spec, replace(SETTINGS, chain=chain))

    assert place == inner[inner.index("--resume") + 1]
    assert ("kubernetes" if chain else "mpirun") == inner[inner.index("--launcher") + 1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("gpt", "--launcher", "kubernetes"), 64, "needs --image"),
        (("gpt", "--image", "i"), 64, "--image is for --launcher kubernetes or argo"),
        (("gpt", "--namespace", "n", "--claim", "c"), 64, "--namespace and --claim are for"),
        ((*WORDS, "--namespace", "../x"), 64, "no name on a cluster"),
        ((*WORDS, "--claim", "A"), 64, "no name on a cluster"),
        ((*WORDS[:-1], "a b"), 64, "is no image"),
        ((*WORDS, "--kind", "mpijobs"), 64, "did you mean mpijob?"),
        (("gpt", "--launcher", "argo", "--image", "i", "--kind", "job"), 64, "leave --kind job"),
        ((*WORDS, "--analyzer-image", "a"), 64, "--analyzer-image is for --launcher argo"),
        ((*WORDS, "--analyzer-image", "a b"), 64, "--analyzer-image 'a b' is no image"),
        (("gpt", "--launcher", "argo", "--image", "i"), 64, "give --analyzer-image REGISTRY"),
        ((*WORDS, "--rings", "pods"), 64, "did you mean pod?"),
        (("gpt", "--rings", "pod"), 64, "--rings is for --launcher kubernetes or argo"),
        ((*WORDS, "--submission", "a b"), 64, "is no mark"),
        ((*WORDS, "--timeout", "0"), 64, "--timeout 0 must be at least 1 second"),
        ((*WORDS, "--run-id", "../x"), 64, "is no run id"),
        ((*WORDS, "--job", "f"), 64, "--job starts nothing"),
        ((*WORDS, "--resume", "d"), 64, "--resume d is no place on the claim; give it as pods"),
        ((*WORDS, "--resume", "/runs/../etc"), 64, "is no place on the claim"),
        ((*WORDS, "--data", "/d"), 64, "on a cluster data are synthetic"),
        ((*WORDS, "--hostfile", "h"), 64, "--hostfile is for mpirun"),
        ((*WORDS, "--network", "namespaces"), 64, "--network need --launcher local"),
        ((*WORDS, "--kubeconfig", "nowhere"), 65, "the kubeconfig nowhere cannot be used"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    lockstep: Lockstep, words: tuple[str, ...], code: int, said: str
) -> None:
    answer = lockstep("run", *words)

    assert code == answer.code, answer.err
    assert said in answer.err
    assert "Traceback" not in answer.err
