"""What Kubernetes says of a release that does not run, in a sentence with what mends it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lockstep.doctor import installed
from lockstep.doctor.installed import Namespace, Part, State, judged
from lockstep.workloads.launch.kubernetes import api as api_server
from tests.cluster.fake_api import FakeApi

HOME, COLLECTORS = "lockstep", "lockstep-collector"
DIGEST = 'Failed to pull image "r.example/lockstep-watch:1": rpc error: code = Unknown desc = '
CLAIM = "watch.persistence.storageClassName or existingClaim, or watch.persistence.enabled=false"


def labels(part: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "lockstep", "app.kubernetes.io/component": part}


def deployment(part: str = "watch", ready: int = 0) -> dict[str, Any]:
    return {
        "kind": "Deployment", "spec": {"replicas": 1},
        "metadata": {"name": f"lockstep-{part}", "labels": labels(part), "generation": 1},
        "status": {"readyReplicas": ready, "updatedReplicas": 1, "observedGeneration": 1},
    }  # fmt: skip


def daemons(wanted: int = 2, ready: int = 0) -> dict[str, Any]:
    return {
        "kind": "DaemonSet", "spec": {},
        "metadata": {"name": "lockstep-collector", "labels": labels("collector"), "generation": 1},
        "status": {
            "desiredNumberScheduled": wanted, "numberReady": ready,
            "updatedNumberScheduled": wanted, "observedGeneration": 1,
        },
    }  # fmt: skip


def pod(part: str = "watch", name: str = "p", node: str = "n1", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels(part)},
        "spec": {"nodeName": node, "containers": [{"image": f"r.example/lockstep-{part}:1"}]},
        "status": {"phase": "Pending", **status},
    }


def event(of: str, reason: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"name": of}, "reason": reason, "message": message, "type": "Warning"}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "w", "image": "r.example/x:1", "state": state}]}


def unplaced(message: str) -> dict[str, Any]:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**told, "message": message}]}


def of_watch(told: dict[str, Any], *events: dict[str, Any]) -> Part:
    space = Namespace(HOME, (deployment(),), (pod(**told),), events=events)
    [part] = judged([space])
    return part


def test_the_claim_of_the_dashboard_is_mended_where_watch_has_it():
    told = unplaced('persistentvolumeclaim "mine" not found')
    space = Namespace(HOME, (deployment("dashboard"),), (pod("dashboard", **told),))
    [part] = judged([space])

    assert "there is no claim mine" in part.found
    assert CLAIM in part.fix


def of_collector(*events: dict[str, Any], pods: bool = True) -> Part:
    there = (pod("collector"),) if pods else ()
    [part] = judged([Namespace(COLLECTORS, (daemons(),), there, events=events)])
    return part


def test_what_runs_is_told_in_a_line_each():
    parts = judged([
        Namespace(HOME, (deployment(ready=1),)), Namespace(COLLECTORS, (daemons(2, 2),)),
    ])  # fmt: skip

    assert [
        Part("Deployment lockstep/lockstep-watch", State.OK, "1 of 1 ready"),
        Part("DaemonSet lockstep-collector/lockstep-collector", State.OK, "2 of 2 ready"),
    ] == parts


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("failed to resolve reference: unexpected status: 401 Unauthorized", "refuses image"),
        # containerd 1.6.20, of a registry without an account of the node's
        ("pulling from host r failed with status code [manifests 1]: 401 Unauthorized",
         "refuses image"),
        ("pull access denied, repository does not exist or may require authorization",
         "refuses image"),
        ('failed to resolve reference "r.example/x:1": r.example/x:1: not found', "has no image"),
        ("manifest unknown: manifest unknown", "has no image"),
        ("dial tcp: lookup r.example on 10.0.0.10: no such host", "no registry could be reached"),
        ("dial tcp 10.1.1.1:443: connect: connection refused", "no registry could be reached"),
        ("x509: certificate signed by unknown authority", "no registry could be reached"),
    ],
)  # fmt: skip
def test_a_registry_that_refuses(said: str, found: str):
    told = waits("ImagePullBackOff", 'Back-off pulling image "r.example/x:1"')
    part = of_watch(told, event("p", "Failed", DIGEST + said))

    assert State.MISSING is part.state
    assert part.found.startswith("0 of 1 ready: ")
    assert f"{found}" in part.found
    assert "r.example/x:1" in part.found
    assert "images." in part.fix


@pytest.mark.parametrize(
    ("said", "found", "fix"),
    [
        ("0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
         "no provisioner provides a volume for the claim of watch", CLAIM),
        ('persistentvolumeclaim "mine" not found', "there is no claim mine in namespace lockstep",
         CLAIM),
        ("0/4 nodes are available: 4 Insufficient memory.", "no node has enough memory for watch",
         "watch.resources"),
        ("0/4 nodes are available: 4 node(s) didn't match node selector.",
         "no node is chosen by watch.nodeSelector", "kubectl get nodes --show-labels"),
        ("0/4 nodes are available: 4 node(s) had taint {a: b}, that the pod didn't tolerate.",
         "all nodes that watch may use have taints", "watch.tolerations"),
    ],
)  # fmt: skip
def test_a_pod_that_nobody_places(said: str, found: str, fix: str):
    part = of_watch(unplaced(said))

    assert (State.MISSING, f"0 of 1 ready: {found}") == (part.state, part.found)
    assert fix in part.fix


@pytest.mark.parametrize(
    ("reason", "said", "found", "fix"),
    [
        ("FailedCreate", 'pods "c" is forbidden: violates PodSecurity "baseline:latest": hostPath',
         ("namespace lockstep-collector enforces Pod Security baseline, which forbids what"
         " collector mounts or is"), "collector.createNamespace"),
        ("FailedCreate", "pods is forbidden: unable to validate against any pod security policy",
         "no pod security policy lets collector in", "hostPath"),
        ("FailedCreate", 'pods "c" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
         "the cluster has no runtime class nvidia", "collector.nvml.runtimeClassName"),
        ("FailedCreate", ('error looking up service account n/lockstep-collector: serviceaccount '
         '"lockstep-collector" not found'),
         "there is no account lockstep-collector in namespace lockstep-collector", "helm upgrade"),
        ("FailedCreate", "pods is forbidden: exceeded quota: team, requested: pods=1",
         "the quota team of namespace lockstep-collector is used up", "collector.resources"),
    ],
)  # fmt: skip
def test_pods_that_may_not_be_created(reason: str, said: str, found: str, fix: str):
    part = of_collector(event("lockstep-collector", reason, said), pods=False)

    assert (State.MISSING, f"0 of 2 ready: {found}") == (part.state, part.found)
    assert fix in part.fix


@pytest.mark.parametrize(
    ("reason", "said", "found", "fix"),
    [
        ("FailedMount", ('MountVolume.SetUp failed for volume "rings" : mkdir /run/lockstep:'
         " read-only file system"),
         "node n1 has no folder /run/lockstep, and it cannot be made: read-only file system",
         "when the node starts"),
        ("FailedMount", ('MountVolume.SetUp failed for volume "pod-resources" : hostPath type check'
         " failed: /var/lib/kubelet/pod-resources is not a directory"),
         "the kubelet of node n1 has no /var/lib/kubelet/pod-resources: it is kept elsewhere there",
         "collector.podResourcesPath"),
        ("FailedMount", ('MountVolume.SetUp failed for volume "rings" : hostPath type check failed:'
         " /run/lockstep is not a directory"),
         "/run/lockstep of node n1 is not a directory", "mend it there"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "l" : secret "login" not found',
         "there is no Secret or ConfigMap login in namespace lockstep-collector", "create it"),
        ("FailedCreatePodSandBox", ("Failed to create pod sandbox: rpc error: code = Unknown desc ="
         ' failed to get sandbox runtime: no runtime for "nvidia" is configured'),
         "the container runtime of node n1 has no handler nvidia", "collector.nodeSelector"),
    ],
)  # fmt: skip
def test_a_node_that_has_not_what_is_asked_of_it(reason: str, said: str, found: str, fix: str):
    part = of_collector(event("p", reason, said))

    assert (State.MISSING, f"0 of 2 ready: {found}") == (part.state, part.found)
    assert fix in part.fix


def test_a_daemon_set_whose_first_pod_is_refused_has_no_status_and_is_told():
    new = daemons()
    new["status"] = {"desiredNumberScheduled": 0, "numberReady": 0}
    said = 'pods "c" is forbidden: pod rejected: RuntimeClass "nvidia" not found'
    events = (event("lockstep-collector", "FailedCreate", said),)
    [part] = judged([Namespace(COLLECTORS, (new,), events=events)])

    assert "none ready: the cluster has no runtime class nvidia" == part.found


def test_after_an_upgrade_pods_of_the_revision_before_are_not_what_runs():
    old = daemons(2, 2)
    old["status"]["updatedNumberScheduled"] = 0
    [starts] = judged([Namespace(COLLECTORS, (old,))])
    surging = deployment("dashboard", ready=1)
    surging["status"] |= {"replicas": 2, "unavailableReplicas": 1}
    new = pod("dashboard", **waits("ErrImagePull", "manifest unknown"))
    [stuck] = judged([Namespace(HOME, (surging,), (pod("dashboard", "old"), new))])

    assert (State.WAITING, "2 ready, not all of this revision: its pods start") == (
        starts.state, starts.found
    )  # fmt: skip
    assert State.MISSING is stuck.state
    assert "the registry has no image" in stuck.found


def test_a_container_that_ends_is_told_by_its_own_last_line():
    ended = {"exitCode": 69, "reason": "Error", "message": "starting\nno Prometheus at http://x\n"}
    told = {"containerStatuses": [{
        "name": "watch", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }]}  # fmt: skip
    part = of_watch(told)

    found = "0 of 1 ready: its container watch ended with 69: no Prometheus at http://x"
    assert (State.MISSING, found) == (part.state, part.found)


def test_a_pod_that_is_ready_is_not_the_reason_though_it_was_killed_before():
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    ready = pod(
        "collector", "old", conditions=[{"type": "Ready", "status": "True"}],
        containerStatuses=[{"name": "w", "lastState": {"terminated": ended}}],
    )  # fmt: skip
    other = pod("collector", "new", **unplaced("the moon is in the wrong house"))
    [part] = judged([Namespace(COLLECTORS, (daemons(2, 1),), (ready, other))])

    assert "1 of 2 ready: the moon is in the wrong house" == part.found


def test_a_container_killed_for_its_memory():
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    told = {"containerStatuses": [{"name": "w", "state": {"terminated": ended}}]}

    assert "watch was killed for its memory" in of_watch(told).found


def test_what_only_starts_is_no_fault_and_words_that_nobody_knows_are_shown():
    assert State.WAITING is of_watch({}).state
    part = of_watch(unplaced("the moon is in the wrong house"))

    assert (State.WAITING, "0 of 1 ready: the moon is in the wrong house") == (
        part.state, part.found
    )  # fmt: skip


def test_a_set_for_no_node_and_one_that_nobody_has_looked_at():
    [nowhere] = judged([Namespace(COLLECTORS, (daemons(0),))])
    new = daemons()
    new["status"] = {}
    [unseen] = judged([Namespace(COLLECTORS, (new,))])

    assert (State.MISSING, "it is meant for no node") == (nowhere.state, nowhere.found)
    assert "collector.nodeSelector" in nowhere.fix
    assert State.WAITING is unseen.state


def test_a_claim_that_waits_for_its_first_pod_is_no_fault_and_one_without_a_class_is():
    claim = {"metadata": {"name": "lockstep-runs", "labels": labels("runs")},
             "status": {"phase": "Pending"}}  # fmt: skip
    why = event("lockstep-runs", "ProvisioningFailed", 'storageclass.storage.k8s.io "x" not found')
    lost = {**claim, "status": {"phase": "Lost"}}
    bound = {**claim, "status": {"phase": "Bound"}}

    def told(each: dict[str, Any], *events: dict[str, Any]) -> list[tuple[State, str]]:
        space = Namespace("lockstep-runs", (daemons(1, 1),), (), (each,), events)
        return [(part.state, part.found) for part in judged([space])[1:]]

    assert [State.OK] == [state for state, _ in told(claim)]
    missing = (State.MISSING, "no provisioner provides a volume for the claim of runs")
    assert [missing] == told(claim, why)
    assert [(State.MISSING, "its volume is gone")] == told(lost)
    assert [] == told(bound)


def test_an_account_that_may_not_list_and_a_namespace_without_a_release():
    [denied, *_] = judged([Namespace(HOME, denied=("pods", "events"))])
    [nothing] = judged([Namespace(HOME), Namespace(COLLECTORS)])

    assert "this account may not list pods, events there" == denied.found
    assert "nothing of the chart is in lockstep, lockstep-collector" == nothing.found
    assert State.MISSING is denied.state is nothing.state


def test_nothing_that_somebody_wrote_steers_a_terminal():
    part = of_watch(unplaced("a\x1b[31mb\nc" + "x" * 1000))

    assert part.found.isprintable()
    assert len(part.found) < 400


@pytest.mark.parametrize("row", range(len(installed.WHY)))
def test_every_row_is_reached_by_something_that_kubernetes_says(row: int):
    """By the tests above, or these."""
    said = {
        "InvalidImageName": 'Failed to apply default image tag "a:b:c": InvalidImageName',
        "ErrImageNeverPull": "ErrImageNeverPull: Container image is not present",
        "no matches": 'pods "x" is forbidden: User "a" cannot get resource',
        "couldn't find key": "couldn't find key token in Secret lockstep/login",
    }
    pattern, sentence, fix = installed.WHY[row]
    for name, text in said.items():
        if name in pattern:
            assert installed._known(text) == (pattern, sentence, fix)
    assert sentence.format_map(_Any())
    assert fix.format_map(_Any())


class _Any(dict[str, str]):
    def __missing__(self, key: str) -> str:
        assert key in ("part", "claims", "namespace", "node", "image", "what", "kind")
        return "x"


@pytest.fixture
def api(tmp_path: Any) -> Any:
    with FakeApi().running() as running:
        yield running


def test_a_folder_that_may_not_be_made_is_no_matter_of_the_registry():
    said = 'MountVolume.SetUp failed for volume "rings" : mkdir /run/lockstep: permission denied'

    assert (
        "it cannot be made: permission denied"
        in of_collector(event("p", "FailedMount", said)).found
    )


def test_the_command_says_the_sentence_and_exits_by_it(
    lockstep: Callable[..., Any], api: FakeApi, tmp_path: Any
) -> None:
    api.objects = {
        ("deployments", HOME, "lockstep-watch"): deployment(ready=1),
        ("daemonsets", COLLECTORS, "lockstep-collector"): daemons(0),
    }
    words = ("doctor", "--cluster", "--kubeconfig", str(api.kubeconfig(tmp_path)))
    answer = lockstep(*words, "--namespace", HOME, "--namespace", COLLECTORS)
    good = lockstep(*words, "--namespace", HOME, "-o", "json")

    assert 1 == answer.code
    assert "missing  DaemonSet lockstep-collector/lockstep-collector  it is meant for no node" in (
        answer.out
    )
    assert (0, ["ok"]) == (good.code, [one["state"] for one in json.loads(good.out)["parts"]])


def test_an_api_server_that_is_silent_is_told(
    lockstep: Callable[..., Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "READ_SECONDS", 0.2)
    fake = FakeApi()
    answer = lockstep("doctor", "--cluster", "--kubeconfig", str(fake.kubeconfig(tmp_path)))
    fake._server.server_close()

    assert 69 == answer.code
    assert "does not answer" in answer.err


def test_it_waits_for_what_is_about_to_start() -> None:
    told = [0, 0, 1]
    now = [0.0]

    class Api:
        def read(self, path: str, **_: str) -> dict[str, Any]:
            if path.endswith("deployments"):
                return {"items": [deployment(ready=told.pop(0) if len(told) > 1 else told[0])]}
            return {"items": []}

    def pause(seconds: float) -> None:
        now[0] += seconds

    parts = installed.watched(Api(), [HOME], 60.0, lambda: now[0], pause)  # type: ignore[arg-type]

    assert State.OK is parts[0].state
    assert now[0] == 4.0
