"""A run that Kueue holds back says behind whom, and its time to start has not begun."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.launch.kubernetes.conditions import Phase
from lockstep.workloads.launch.kubernetes.doubts import doubts
from lockstep.workloads.launch.kubernetes.facts import (
    KUEUE_CONFIGURATION,
    KUEUE_FILE,
    Facts,
    look,
)
from lockstep.workloads.launch.kubernetes.kueue import QUEUE_LABEL, suspended, waits_behind
from lockstep.workloads.launch.kubernetes.preflight import refusal
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings
from lockstep.workloads.launch.kubernetes.submission import submission
from lockstep.workloads.launch.kubernetes.workflow import measured
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.controllers import kueue
from tests.workloads.launch.kubernetes.conftest import NAMESPACE, RUN, FakeCluster
from tests.workloads.launch.kubernetes.story import Told, started
from tests.workloads.launch.kubernetes.test_cluster_run import JOB, condition, workers

NO_ROOM = "couldn't assign flavors to pod set worker: insufficient unused quota for cpu"


def workload(name: str, created: str, priority: int = 0, **conditions: bool) -> dict[str, Any]:
    told = [{"type": kind, "status": str(value), "message": "" if value else NO_ROOM}
            for kind, value in conditions.items()]  # fmt: skip
    return {
        "metadata": {"name": f"job-{name}", "creationTimestamp": created,
                     "ownerReferences": [{"name": name, "uid": f"uid-{name}"}]},
        "spec": {"queueName": "gpus", "priority": priority},
        "status": {"conditions": told},
    }  # fmt: skip


def test_behind_whom_is_by_priority_then_age_and_who_runs_is_told() -> None:
    told = waits_behind("gpus", "uid-me", [
        workload("me", "2026-01-01T10:00:00Z", QuotaReserved=False),
        workload("later", "2026-01-01T11:00:00Z"), workload("early", "2026-01-01T09:00:00Z"),
        workload("urgent", "2026-01-01T12:00:00Z", priority=9),
        workload("runs", "2026-01-01T08:00:00Z", Admitted=True),
        workload("over", "2026-01-01T07:00:00Z", Admitted=True, Finished=True),
    ])  # fmt: skip

    assert f"in queue gpus behind early, urgent while runs runs: {NO_ROOM}" == told


def test_where_workloads_may_not_be_seen_the_queue_alone_is_told() -> None:
    assert "in queue gpus" == waits_behind("gpus", "uid-me", [])


def test_the_job_names_its_queue(spec: RunSpec, settings: Settings) -> None:
    queued = replace(settings, queue="gpus")
    labels = submission(spec, queued, ["x"]).whole["metadata"]["labels"]

    assert "gpus" == labels[QUEUE_LABEL]
    assert QUEUE_LABEL not in submission(spec, settings, ["x"]).whole["metadata"]["labels"]


def let_go(cluster: FakeCluster, value: bool = True) -> None:
    cluster.objects[JOB] = kueue.suspended(cluster.objects[JOB], not value)


def test_time_in_the_queue_is_not_time_to_start(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    told = Told([])
    queued = replace(settings, queue="gpus", start_timeout=10.0)
    run = started(
        cluster, spec, queued,
        {100: lambda: let_go(cluster), 104: lambda: workers(cluster),
         120: lambda: condition(cluster, "Succeeded")},
    )  # fmt: skip
    assert suspended(cluster.objects[JOB])  # by Kueue's webhook
    ended = run.wait(told)

    assert (Phase.SUCCEEDED, True) == (ended.phase, ended.ran)
    assert "queued" in told.stages
    assert not suspended(cluster.objects.get(JOB))
    assert RUN


GROUP = "/apis/kueue.x-k8s.io"
REST = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": [
    {"name": "cpu", "nominalQuota": "64"}, {"name": "memory", "nominalQuota": "256Gi"},
]}]}  # fmt: skip
"""All else that pods of a run ask for."""
EVERYBODY = {"matchLabels": {}}


def served(cluster: FakeCluster, version: str, groups: list[dict[str, Any]], **spec: Any) -> None:
    """A LocalQueue `gpus` and the ClusterQueue behind it."""
    group = f"{GROUP}/{version}"
    cluster.objects[group] = {"resources": [{"name": "localqueues"}]}
    cluster.objects[f"{group}/namespaces/lockstep-runs/localqueues/gpus"] = {
        "spec": {"clusterQueue": "team"}
    }
    cluster.objects[f"{group}/clusterqueues/team"] = {
        "spec": {"resourceGroups": groups, "namespaceSelector": EVERYBODY, **spec}
    }


def queues(
    cluster: FakeCluster, version: str, gpus: str, *flavors: dict[str, Any], **spec: Any
) -> None:
    """The same, whose first flavor has so many GPUs, and enough of all else."""
    first = {"name": "nvidia.com/gpu", "nominalQuota": gpus}
    told = [{"name": f"f{n}", "resources": [each]} for n, each in enumerate((first, *flavors))]
    covers_gpus = {"coveredResources": ["nvidia.com/gpu"], "flavors": told}
    served(cluster, version, [covers_gpus, REST], **spec)


def configured(cluster: FakeCluster, text: str) -> None:
    """Kueue's own configuration, where this account may see it."""
    cluster.objects[KUEUE_CONFIGURATION] = {"data": {KUEUE_FILE: text}}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_run_that_its_queue_can_never_let_in_is_refused_with_the_capacity(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, version: str
) -> None:
    settings = replace(settings, queue="gpus")
    queues(cluster, version, "4")
    refused = refusal(look(cluster, settings), spec, settings)

    assert refused is not None
    assert 64 == refused.code
    assert "can give at most 4 nvidia.com/gpu (ClusterQueue team)" in refused.sentence
    assert "the run needs 8" in refused.sentence


MORE = {"name": "nvidia.com/gpu", "nominalQuota": "4"}


@pytest.mark.parametrize(
    ("told", "fits"),
    [
        (("8", {}), True),
        (("4", {}, MORE), False),  # one flavor for all ranks
        (("4", {"cohortName": "all"}), True),  # lent without a limit
        (("4", {"cohort": "all"}, {**MORE, "borrowingLimit": "3"}), True),
    ],
)
def test_only_what_kueue_can_never_give_is_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, told: Any, fits: bool
) -> None:
    gpus, about, *flavors = told
    settings = replace(settings, queue="gpus")
    queues(cluster, "v1beta2", gpus, *flavors, **about)

    assert fits == (refusal(look(cluster, settings), spec, settings) is None)


def test_a_limit_to_borrowing_is_part_of_the_capacity(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    limited = {"name": "nvidia.com/gpu", "nominalQuota": "4", "borrowingLimit": "3"}
    queues(cluster, "v1beta2", "0", limited, cohortName="all")
    place = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team"
    group = cluster.objects[place]["spec"]["resourceGroups"][0]
    group["flavors"][0]["resources"][0]["borrowingLimit"] = "0"
    refused = refusal(look(cluster, settings), spec, settings)

    assert refused is not None
    assert "at most 7 nvidia.com/gpu" in refused.sentence


ONLY_GPUS = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "h100", "resources": [
    {"name": "nvidia.com/gpu", "nominalQuota": "64"}]}]}]  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "refuses"),
    [
        ("{}", True),
        ("{quotaCheckStrategy: BlockUndeclared}", True),
        ("{quotaCheckStrategy: IgnoreUndeclared}", False),
        ("{excludeResourcePrefixes: [cpu]}", True),
        ("{excludeResourcePrefixes: [cpu, memory]}", False),
        ("{transformations: [{input: cpu, strategy: Replace}]}", True),
    ],
)
def test_what_a_queue_has_no_quota_of_is_refused_unless_kueue_does_not_count_it(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, resources: str, refuses: bool
) -> None:
    settings = replace(settings, queue="gpus")
    served(cluster, "v1beta2", ONLY_GPUS)
    configured(cluster, f"kind: Configuration\nresources: {resources}\n")
    facts = look(cluster, settings)
    refused = refusal(facts, spec, settings)

    assert facts.kueue_resources is not None
    whole = submission(spec, settings, []).whole
    if "transformations" not in resources:  # which the double does not know
        said = kueue.not_admitted(
            whole, {"spec": facts.cluster_queue["spec"]}, facts.kueue_resources
        )
        assert refuses == ("unavailable in ClusterQueue" in said)
    assert refuses == (refused is not None)
    if refused is not None:
        assert 64 == refused.code
        assert "has quotas for nvidia.com/gpu (ClusterQueue team)" in refused.sentence
        assert "memory as well, so Kueue would never let it in" in refused.sentence
    assert [] == doubts(facts, spec, settings)


@pytest.mark.parametrize("text", [None, "kind: [", "no table", "resources: 3"])
def test_where_kueues_configuration_is_not_known_what_has_no_quota_is_a_doubt(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, text: str | None
) -> None:
    settings = replace(settings, queue="gpus")
    served(cluster, "v1beta2", ONLY_GPUS)
    if text is not None:
        configured(cluster, text)
    facts = look(cluster, settings)

    assert None is refusal(facts, spec, settings)
    [doubt] = doubts(facts, spec, settings)
    assert "the run's pods ask for cpu and memory as well: Kueue never lets it in" in doubt
    assert "its configuration, which this account may not see" in doubt


def test_kueues_own_word_that_it_has_no_quota_ends_the_waiting_at_once(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    served(cluster, "v1beta2", ONLY_GPUS)
    said = kueue.not_admitted(
        submission(spec, settings, []).whole,
        cluster.objects[f"{GROUP}/v1beta2/clusterqueues/team"],
    )  # fmt: skip

    def looked() -> None:
        own = workload("me", "2026-01-01T10:00:00Z", QuotaReserved=False)
        own["metadata"]["ownerReferences"] = [{"uid": cluster.objects[JOB]["metadata"]["uid"]}]
        own["status"]["conditions"][0]["message"] = said
        place = f"{GROUP}/v1beta2/namespaces/lockstep-runs/workloads"
        cluster.objects[place] = {"items": [own]}

    run = started(cluster, spec, settings, {3: looked})
    ended = run.wait(Told([]))

    assert (Phase.FAILED, False) == (ended.phase, ended.ran)
    assert ended.reason == (
        "Kueue would never let it in: couldn't assign flavors to pod set launcher: resource cpu"
        " unavailable in ClusterQueue"
    )
    assert run.clock() < 6


GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TEAMS = {"key": "team", "value": "a", "effect": "NoExecute"}
TOLERATED = {"key": "team", "operator": "Equal", "value": "a"}
QUOTAS = st.sampled_from(["0", "500m", "1", "2", "4", "1Gi", "4Gi", "16Gi", "64Gi"])
NAMES = ("nvidia.com/gpu", "cpu", "memory", "pods")


@st.composite
def cluster_queues(draw: st.DrawFn) -> dict[str, Any]:
    """Any that the API takes: groups share no resource, and flavors have a quota for each."""
    names = draw(st.permutations(NAMES))
    cuts = sorted(draw(st.lists(st.integers(0, len(names)), max_size=2)))
    parts = [names[a:b] for a, b in itertools.pairwise([0, *cuts, draw(st.integers(2, 4))])]
    groups = []
    for part in parts:
        if part:
            flavors = [
                {"name": f"f{number}", "resources": [
                    {"name": name, "nominalQuota": draw(QUOTAS),
                     **draw(st.sampled_from([{}, {}, {"borrowingLimit": "1"}]))} for name in part
                ]} for number in range(draw(st.integers(1, 2)))
            ]  # fmt: skip
            groups.append({"coveredResources": list(part), "flavors": flavors})
    shared = draw(st.sampled_from([{}, {}, {"cohortName": "all"}]))
    return {"spec": {"resourceGroups": groups, "namespaceSelector": EVERYBODY, **shared}}


TAINTS = st.lists(st.sampled_from([GPU_TAINT, TEAMS]), max_size=1)
TOLERATIONS = st.sampled_from([
    [], [TOLERATED], [{"operator": "Exists"}], [{"key": "team", "value": "b"}],
    [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
])  # fmt: skip
RESOURCE_FLAVORS = st.fixed_dictionaries({
    name: st.fixed_dictionaries({"spec": st.fixed_dictionaries(
        {"nodeTaints": TAINTS, "tolerations": TOLERATIONS})}) for name in ("f0", "f1")
})  # fmt: skip


@given(
    cluster_queues(), RESOURCE_FLAVORS, st.sampled_from(["cuda", "cpu"]), st.integers(1, 3),
    st.sampled_from(Kind),
)  # fmt: skip
def test_nobody_is_refused_whom_kueue_would_let_in_and_with_one_flavor_nobody_else_is_created(
    queue: dict[str, Any], flavors: dict[str, Any], device: str, nodes: int, kind: Kind
) -> None:
    spec = RunSpec(RUN, "gpt", Layout(nodes, 1, nodes), 20, 0, device=device, pace=False)
    settings = Settings("r/i:1", queue="gpus", kind=kind)
    said = kueue.not_admitted(submission(spec, settings, []).whole, queue, {}, flavors)
    facts = Facts(queue={"spec": {"clusterQueue": "team"}}, cluster_queue=queue, flavors=flavors,
                  kueue_resources={})  # fmt: skip
    refused = refusal(facts, spec, settings)

    assert not (refused and not said), (refused, queue)
    if all(len(group["flavors"]) == 1 for group in queue["spec"]["resourceGroups"]):
        assert bool(refused) == bool(said), (said, refused)


@pytest.mark.parametrize(
    ("gpus", "rest", "said"),
    [
        ({"nodeTaints": [GPU_TAINT]}, {}, ""),  # as GPU nodes have it, and ranks tolerate it
        ({"nodeTaints": [TEAMS]}, {}, "(f0: team=a:NoExecute; ClusterQueue team)"),
        ({"nodeTaints": [TEAMS], "tolerations": [TOLERATED]}, {}, ""),
        ({}, {"nodeTaints": [GPU_TAINT]}, "(any: nvidia.com/gpu=present:NoSchedule; Clu"),
        ({}, {"nodeTaints": [{**TEAMS, "effect": "PreferNoSchedule"}]}, ""),
    ],
)  # fmt: skip
def test_a_queue_whose_flavors_repel_the_pods_is_refused_with_their_taints(
    cluster: FakeCluster, spec: RunSpec, settings: Settings,
    gpus: dict[str, Any], rest: dict[str, Any], said: str,
) -> None:  # fmt: skip
    settings = replace(settings, queue="gpus")
    queues(cluster, "v1beta2", "8")
    assert None is refusal(look(cluster, settings), spec, settings)
    for name, told in (("f0", gpus), ("any", rest)):
        place = f"{GROUP}/v1beta2/resourceflavors/{name}"
        cluster.objects[place] = {"metadata": {"name": name}, "spec": told}
    facts = look(cluster, settings)
    refused = refusal(facts, spec, settings)

    whole = submission(spec, settings, []).whole
    assert bool(said) == bool(kueue.not_admitted(whole, facts.cluster_queue, {}, facts.flavors))
    assert bool(said) == (refused is not None)
    assert refused is None or (64, True) == (refused.code, said in refused.sentence)


@pytest.mark.parametrize(
    ("selector", "lets_in"),
    [
        (None, False), ({}, True), ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Later"}]}, True),
    ],
)  # fmt: skip
def test_a_queue_that_leaves_the_namespace_out_is_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, selector: Any, lets_in: bool
) -> None:
    settings = replace(settings, queue="gpus")
    cluster.objects[NAMESPACE]["metadata"]["labels"] = {"team": "a"}
    queues(cluster, "v1beta2", "8", namespaceSelector=selector)
    refused = refusal(look(cluster, settings), spec, settings)

    assert lets_in == (refused is None)
    assert refused is None or "leaves this namespace out" in refused.sentence


def test_a_queue_that_somebody_stopped_is_a_doubt(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    queues(cluster, "v1beta2", "8", stopPolicy="Hold")
    found = doubts(look(cluster, settings), spec, settings)

    [doubt] = found
    assert "the ClusterQueue behind it is stopped (stopPolicy Hold): Kueue admits nothing" in doubt


def test_quota_that_is_enough_of_each_but_in_no_flavor_together_is_refused(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings, spec = replace(settings, queue="gpus"), replace(spec, device="cpu")
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpu},
                                     {"name": "memory", "nominalQuota": memory}]}
        for name, cpu, memory in (("a", "1", "64Gi"), ("b", "64", "1Gi"))
    ]  # fmt: skip
    served(cluster, "v1beta2", [{"coveredResources": ["cpu", "memory"], "flavors": flavors}])
    refused = refusal(look(cluster, settings), spec, settings)

    assert refused is not None
    assert "has no flavor with enough cpu and memory together (ClusterQueue team)" in (
        refused.sentence)  # fmt: skip


def test_a_queue_that_is_not_there_is_refused_and_one_that_may_not_be_seen_is_not(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus")
    assert None is refusal(look(cluster, settings), spec, settings)  # no Kueue to be seen
    queues(cluster, "v1beta2", "8")
    del cluster.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/team"]
    refused = refusal(look(cluster, settings), spec, settings)
    assert refused is not None
    assert "leads to the ClusterQueue team, which is not there" in refused.sentence
    other = replace(settings, queue="others")
    refused = refusal(look(cluster, other), spec, other)
    assert refused is not None
    assert "there is not the queue others of namespace lockstep-runs" in refused.sentence


def test_a_run_that_waits_too_long_in_its_queue_ends_and_says_behind_whom(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    place = "/apis/kueue.x-k8s.io/v1beta2/namespaces/lockstep-runs/workloads"
    cluster.objects[place] = {"items": [workload("other", "2026-01-01T08:00:00Z", Admitted=True)]}
    queued = replace(settings, queue="gpus", queue_timeout=60.0)
    ended = started(cluster, spec, queued, {}).wait(Told([]))

    assert (Phase.FAILED, False) == (ended.phase, ended.ran)
    assert "it waited 60 s in queue gpus while other runs" == ended.reason


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_run_whose_quota_is_taken_back_ends_and_says_so(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, version: str
) -> None:
    def preempted() -> None:
        let_go(cluster, False)
        for path in [path for path in cluster.objects if "-worker-" in path]:
            del cluster.objects[path]
        own = workload("me", "2026-01-01T10:00:00Z")
        own["metadata"]["ownerReferences"] = [{"uid": cluster.objects[JOB]["metadata"]["uid"]}]
        own["status"]["conditions"] = [{"type": "Evicted", "status": "True", "reason": "Preempted",
                                        "message": "to accommodate a workload"}]  # fmt: skip
        place = f"/apis/kueue.x-k8s.io/{version}/namespaces/lockstep-runs/workloads"
        cluster.objects[place] = {"items": [own]}

    ended = started(
        cluster, spec, replace(settings, queue="gpus"),
        {10: lambda: let_go(cluster), 14: lambda: workers(cluster), 30: preempted},
    ).wait(Told([]))  # fmt: skip

    assert Phase.FAILED is ended.phase
    assert ended.reason == (
        "Kueue took its quota back (Preempted: to accommodate a workload) after it had run, and its"
        " ranks are gone"
    )


@pytest.mark.parametrize("again", [101, 400])
def test_an_indexed_job_that_is_let_in_again_before_all_its_pods_ran_goes_on(
    cluster: FakeCluster, spec: RunSpec, settings: Settings, again: int
) -> None:
    job = JOB.replace("kubeflow.org/v2beta1", "batch/v1").replace("mpijobs", "jobs")

    def held(value: bool) -> None:
        cluster.objects[job] = kueue.suspended(cluster.objects[job], value)

    def pods(mark: str, *phases: str) -> None:  # its controller names them at random
        for index, phase in enumerate(phases):
            cluster.pod(f"{RUN.lower()}-{index}-{mark}", node=f"gpu-{index}", phase=phase)

    def gone(mark: str, *indices: int) -> None:
        for index in indices:
            del cluster.objects[f"{NAMESPACE}/pods/{RUN.lower()}-{index}-{mark}"]

    def evicted() -> None:  # its pods have their time to end
        held(True)
        for index in (1, 2, 3):
            place = f"{NAMESPACE}/pods/{RUN.lower()}-{index}-aaaaa"
            cluster.objects[place]["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z"

    def complete() -> None:
        cluster.objects[job]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    run = started(
        cluster, spec, replace(settings, queue="gpus", kind=Kind.JOB),
        {
            10: lambda: held(False), 12: lambda: pods("aaaaa", *["Running"] * 3, "Pending"),
            96: lambda: gone("aaaaa", 0), 100: evicted, again: lambda: held(False),
            120: lambda: gone("aaaaa", 1, 2, 3),
            again + 4: lambda: pods("bbbbb", *["Running"] * 4), 600: complete,
        },
    )  # fmt: skip
    told = Told([])
    ended = run.wait(told)

    assert (Phase.SUCCEEDED, "", True) == (ended.phase, ended.reason, ended.ran)
    assert {f"{RUN.lower()}-{index}-bbbbb" for index in range(4)} == {
        each.name for each in ended.pods
    }
    assert "failing" not in told.stages[told.stages.index("running") :]


def test_a_run_that_somebody_suspends_by_hand_ends_and_says_so(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    ended = started(
        cluster, spec, settings, {4: lambda: workers(cluster), 20: lambda: let_go(cluster, False)}
    ).wait(Told([]))

    assert "it was suspended after it had run, and its ranks are gone" == ended.reason


def test_a_job_that_measures_has_its_time_once_kueue_lets_it_go(
    cluster: FakeCluster, spec: RunSpec, settings: Settings
) -> None:
    settings = replace(settings, queue="gpus", measured=True)
    run = started(cluster, spec, settings, {})
    place = f"{JOB.replace('kubeflow.org/v2beta1', 'batch/v1').replace('mpijobs', 'jobs')}-measure"
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += 600.0
        if now[0] == 6000.0:
            cluster.objects[place] = kueue.suspended(cluster.objects[place], False)
        if now[0] == 6600.0:
            done = [{"type": "Complete", "status": "True"}]
            cluster.objects[place]["status"] = {"conditions": done}

    assert ("", "") == measured(cluster, spec, settings, lambda: now[0], pause)
    assert run.end()
    late = replace(settings, queue_timeout=1200.0)
    started(cluster, spec, late, {})
    now[0] = 10_000.0
    assert "it had not ended in time" in measured(cluster, spec, late, lambda: now[0], pause)[1]
