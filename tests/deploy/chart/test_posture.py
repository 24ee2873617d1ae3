"""What pods of the chart may do, and what they may not."""

from pathlib import Path
from typing import Any

import pytest

from lockstep.collector.cleaner import main
from lockstep.collector.contract import kubernetes as names
from lockstep.runs.cluster_options import DEFAULT_CLAIM, DEFAULT_NAMESPACE
from lockstep.workloads.launch.kubernetes.pod import RINGS_FOLDER
from tests.deploy.chart.chart import (
    forget_renders,
    key,
    objects,
    part,
    pods,
    render,
    values_files,
)
from tests.deploy.chart.pod_security import violations

MATRIX = values_files()
PRIVILEGED = ("collector", "tuning")
"""Parts that live in the namespace of their own, which allows everything."""
COLLECTOR = "lockstep-collector"


CLEANER = ["cleaner: runAsNonRoot is not true", "cleaner: runAsUser 0"]
"""What the cleaner of rings lacks of the profile: folders of pods that are gone are root's."""


def collector(values: dict[str, Any]) -> dict[str, Any]:
    [manifest] = render({"collector": values})["collector-daemonset.yaml"]
    return manifest["spec"]["template"]["spec"]


def named(spec: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [each for each in spec["containers"] if each["name"] == name]
    return found


@pytest.mark.parametrize("name", MATRIX)
def test_all_but_collector_and_tuning_fit_the_restricted_profile(name: str):
    for manifest, template in pods(objects(MATRIX[name])):
        if part(manifest) not in PRIVILEGED:
            assert [] == violations(template), key(manifest)


@pytest.mark.parametrize("name", MATRIX)
def test_what_does_not_fit_is_alone_in_a_namespace_that_says_so(name: str):
    manifests = objects(MATRIX[name])
    homes = {each["metadata"]["namespace"]: part(each) in PRIVILEGED for each, _ in pods(manifests)}
    spaces = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Namespace"}

    for each, _ in pods(manifests):
        assert homes[each["metadata"]["namespace"]] == (part(each) in PRIVILEGED)
    for space in spaces.values():
        if part(space) != "runs":  # where no pod of the chart is
            assert "privileged" == space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
            assert homes[space["metadata"]["name"]]


def test_the_collector_lacks_of_the_profile_nothing_but_its_two_folders_of_the_node():
    [(_, template)] = pods(
        render({"collector": {"cleaner": {"enabled": False}}})["collector-daemonset.yaml"]
    )

    assert ["volume sys: hostPath", "volume rings: hostPath"] == violations(template)


def test_the_cleaner_of_rings_is_root_of_one_folder_and_without_any_capability():
    spec = collector({})
    cleaner = named(spec, "cleaner")

    assert [{"name": "rings", "mountPath": "/host/lockstep"}] == cleaner["volumeMounts"]
    assert {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]}, "runAsUser": 0, "runAsGroup": 0, "runAsNonRoot": False,
    } == cleaner["securityContext"]  # fmt: skip
    assert ["python", "-m", "lockstep.collector.cleaner"] == cleaner["command"]
    assert ["/host/lockstep", "--age=24h"] == cleaner["args"]
    assert not {"ports", "env", "envFrom", "volumeDevices"} & cleaner.keys()


@pytest.mark.parametrize("age", ["15m", "90m", "2h", "720h"])
def test_an_age_that_the_chart_takes_the_cleaner_takes(age: str, tmp_path: Path):
    [_, told] = named(collector({"cleaner": {"age": age}}), "cleaner")["args"]

    assert 0 == main([str(tmp_path), told, "--once"])


def test_the_collector_reads_the_node_and_writes_nothing_there():
    spec = collector({})
    container = named(spec, "collector")
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    of_node = {one["name"]: one["hostPath"] for one in spec["volumes"] if "hostPath" in one}

    assert {"sys": {"path": "/sys"},
            "rings": {"path": "/run/lockstep", "type": "DirectoryOrCreate"}} == of_node  # fmt: skip
    assert all(mounts[name]["readOnly"] for name in of_node)
    assert {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container["securityContext"]  # fmt: skip
    assert {
        "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    } == spec["securityContext"]  # fmt: skip
    assert (False, False, False) == (
        spec["hostNetwork"], spec["hostPID"], spec["automountServiceAccountToken"],
    )  # fmt: skip
    assert "runtimeClassName" not in spec


def test_the_collector_runs_on_every_node_and_stays_on_tainted_ones():
    spec = collector({})

    assert [{"operator": "Exists"}] == spec["tolerations"]
    assert "system-node-critical" == spec["priorityClassName"]
    assert "nodeSelector" not in spec


@pytest.mark.parametrize(("values", "more"), [
    ({"hostPID": True}, ["hostPID"]),
    ({"podResources": True},
     ["volume pod-resources: hostPath", "runAsNonRoot is not true", "runAsUser 0"]),
    ({"kernelLog": True},
     ["volume kernel-log: hostPath", "privileged", "runAsNonRoot is not true", "runAsUser 0",
      "allowPrivilegeEscalation is not false", "capabilities are not dropped"]),
    ({"nvml": {"enabled": True}}, []),
    ({"dcgmExporter": {"enabled": True}}, []),
])  # fmt: skip
def test_what_a_source_needs_more_is_asked_for_and_is_no_more_than_that(values, more):
    [(_, template)] = pods(render({"collector": values})["collector-daemonset.yaml"])
    found = [words.removeprefix("collector: ") for words in violations(template)]
    least = ["volume sys: hostPath", "volume rings: hostPath", *CLEANER]

    assert sorted([*least, *more]) == sorted(found)


def test_the_kernel_log_is_the_node_s_device_for_the_collector_alone():
    spec = collector({"kernelLog": True})
    [volume] = [one for one in spec["volumes"] if one["name"] == "kernel-log"]
    reads = {
        each["name"] for each in spec["containers"]
        if "kernel-log" in {mount["name"] for mount in each["volumeMounts"]}
    }  # fmt: skip

    assert {"path": "/dev/kmsg", "type": "CharDevice"} == volume["hostPath"]
    assert {"collector"} == reads
    assert "--kmsg=/host/kmsg" in named(spec, "collector")["args"]
    assert "privileged" not in named(spec, "cleaner")["securityContext"]
    assert "--kmsg" not in str(collector({}))


def test_gpus_are_seen_without_one_being_consumed():
    spec = collector({"nvml": {"enabled": True}})
    container = named(spec, "collector")

    assert "nvidia" == spec["runtimeClassName"]
    assert {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}.items() <= {
        one["name"]: one.get("value") for one in container["env"]
    }.items()
    assert "nvidia.com/gpu" not in str(container["resources"])


def test_where_nvidias_runtime_is_the_nodes_default_no_class_is_named():
    spec = collector({"nvml": {"enabled": True, "runtimeClassName": ""}})

    assert "runtimeClassName" not in spec
    assert "NVIDIA_VISIBLE_DEVICES" in str(spec["containers"])


def test_a_dcgm_exporter_answers_for_its_own_node_only():
    rendered = render({"collector": {"dcgmExporter": {"enabled": True}}})
    [service] = rendered["collector-dcgm-service.yaml"]

    assert "Local" == service["spec"]["internalTrafficPolicy"]
    pod = rendered["collector-daemonset.yaml"][0]["spec"]["template"]["spec"]
    container = named(pod, "collector")
    assert (
        "--dcgm-exporter=http://lockstep-dcgm-exporter.gpu-operator.svc:9400/metrics"
        in (container["args"])
    )


@pytest.mark.parametrize("name", MATRIX)
def test_only_who_acts_on_nodes_gets_a_token(name: str):
    with_token = [
        part(each)
        for each, template in pods(objects(MATRIX[name]))
        if template["spec"].get("automountServiceAccountToken") is not False
    ]

    assert set(with_token) <= {"nodes"}
    for each in objects(MATRIX[name]):
        if each["kind"] == "ServiceAccount":
            assert each["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", MATRIX)
def test_every_container_has_bounded_memory_and_a_root_that_nobody_writes(name: str):
    for manifest, template in pods(objects(MATRIX[name])):
        for kind in ("initContainers", "containers"):
            for container in template["spec"].get(kind, ()):
                assert container["resources"]["limits"]["memory"], key(manifest)
                assert container["securityContext"]["readOnlyRootFilesystem"], key(manifest)


def test_names_are_those_that_the_code_knows():
    manifests = objects(MATRIX["everything"])
    accounts = {key(each)[1:] for each in manifests if each["kind"] == "ServiceAccount"}
    claims = {key(each)[1:] for each in manifests if each["kind"].endswith("Claim")}

    assert {(names.NAMESPACE, one) for one in (names.WATCH_ACCOUNT, names.DASHBOARD_ACCOUNT,
            names.NODES_ACCOUNT)} | {
        (names.RUNS_NAMESPACE, names.RUNS_ACCOUNT),
        (names.COLLECTOR_NAMESPACE, names.COLLECTOR_ACCOUNT)} == accounts  # fmt: skip
    assert (DEFAULT_NAMESPACE, DEFAULT_CLAIM) in claims


def test_rings_of_launched_runs_are_where_the_collector_looks():
    [folder] = [
        one["hostPath"]["path"] for one in collector({})["volumes"] if one["name"] == "rings"
    ]

    assert RINGS_FOLDER == folder


def test_a_network_policy_opens_the_page_of_each_part_and_no_other_port():
    ports = {
        each["metadata"]["name"]: {
            port["port"] for rule in each["spec"]["ingress"] for port in rule["ports"]
        }
        for each in objects({"nodes": {"enabled": True}})
        if each["kind"] == "NetworkPolicy"
    }

    assert {
        "lockstep-collector": {9410}, "lockstep-watch": {9411},
        "lockstep-dashboard": set(), "lockstep-nodes": {9413},
    } == ports  # fmt: skip


@pytest.mark.parametrize(("told", "port"), [
    ({}, 9400), ({"port": 9500}, 9500),
    ({"url": "http://$(HOST_IP):9500/metrics"}, 9500), ({"url": "http://exporter:9500"}, 9500),
    ({"url": "http://exporter/metrics"}, 80), ({"url": "https://exporter/metrics"}, 443),
])  # fmt: skip
def test_collectors_may_reach_the_dcgm_exporter_that_they_are_told_of(told, port: int):
    values = {"collector": {"dcgmExporter": {"enabled": True, **told}}}
    policy = render(values)["networkpolicies.yaml"][0]
    [rule] = policy["spec"]["egress"]

    assert [53, 53, 28028, port] == [one["port"] for one in rule["ports"]]


def test_a_rule_of_a_network_policy_always_says_who():
    # One without `from` lets everybody in.
    for values in MATRIX.values():
        for each in objects(values):
            if each["kind"] == "NetworkPolicy":
                assert all(rule["from"] for rule in each["spec"]["ingress"])
                assert "Ingress" in each["spec"]["policyTypes"]


def test_a_secret_is_mounted_by_name_or_drawn_at_random_and_never_written_into_the_chart():
    for values in MATRIX.values():
        once = [each for each in objects(values) if each["kind"] == "Secret"]
        forget_renders()
        again = [each for each in objects(values) if each["kind"] == "Secret"]

        assert {"lockstep-webhook"} >= {each["metadata"]["name"] for each in once}
        assert all(one["data"] != two["data"] for one, two in zip(once, again, strict=True))
