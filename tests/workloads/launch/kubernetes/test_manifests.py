"""What is created is valid on every Kubernetes that is checked, and says what
docs/method/collecting.md asks."""

import json
import shlex
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from lockstep.app import build
from lockstep.runs.on_cluster import command
from lockstep.workloads.faults.capabilities import available
from lockstep.workloads.faults.plan import parse
from lockstep.workloads.launch.joining import job_file
from lockstep.workloads.launch.kubernetes import workflow
from lockstep.workloads.launch.kubernetes.settings import Kind, Settings, object_name
from lockstep.workloads.launch.kubernetes.submission import Submission, rights, submission
from lockstep.workloads.launch.mpirun import hostfile
from lockstep.workloads.launch.mpirun.launcher import PASSED, PASSED_PREFIXES
from lockstep.workloads.spec import Layout, RunSpec
from tests.cluster.mpijob_crd import SPEC, closed

VERSIONS = ("1.27", "1.30", "1.33", "1.37")
STEP = {
    "type": "object", "required": ["name", "container"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string"}, "container": {"type": "object"},
        "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
    },
}  # fmt: skip
WORKFLOW = {
    "type": "object",
    "required": ["entrypoint", "templates"],
    "additionalProperties": False,
    "properties": {
        "entrypoint": {"type": "string"},
        "onExit": {"type": "string"},
        "serviceAccountName": {"type": "string"},
        "automountServiceAccountToken": {"type": "boolean"},
        "ttlStrategy": {
            "type": "object", "additionalProperties": False,
            "properties": {"secondsAfterCompletion": {"type": "integer"}},
        },
        "podMetadata": {
            "type": "object", "additionalProperties": False,
            "properties": {"labels": {"type": "object"}},
        },
        "securityContext": {"type": "object"},
        "volumes": {"type": "array"},
        "templates": {"type": "array", "items": {"oneOf": [
            STEP,
            {
                "type": "object", "required": ["name", "steps"], "additionalProperties": False,
                "properties": {"name": {}, "steps": {"type": "array", "items": {
                    "type": "array", "items": {
                        "type": "object", "required": ["name", "template"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {}, "template": {},
                            "continueOn": {
                                "type": "object", "additionalProperties": False,
                                "properties": {
                                    "failed": {"type": "boolean"}, "error": {"type": "boolean"},
                                },
                            },
                        },
                    },
                }}},
            },
            {
                "type": "object", "required": ["name", "resource"], "additionalProperties": False,
                "properties": {"name": {}, "resource": {
                    "type": "object", "required": ["action", "flags"],
                    "additionalProperties": False,
                    "properties": {
                        "action": {"enum": ["get", "create", "apply", "delete"]},
                        "flags": {"type": "array", "items": {"type": "string"}},
                    },
                }},
            },
        ]}},
    },
}  # fmt: skip
"""As far as we write it; fields: https://argo-workflows.readthedocs.io/en/latest/fields/."""


def made(spec: RunSpec, settings: Settings, kind: str) -> Submission:
    chosen = replace(
        settings, chain=kind == "argo", kind=Kind("job" if kind == "job" else "mpijob")
    )
    return submission(spec, chosen, command(spec, chosen))


def pods(whole: Any) -> Iterator[dict[str, Any]]:
    """Every pod template below."""
    if isinstance(whole, dict):
        if "template" in whole and isinstance(whole["template"], dict):
            yield whole["template"]
        for each in whole.values():
            yield from pods(each)


def worker(whole: dict[str, Any]) -> dict[str, Any]:
    found = [each for each in pods(whole) if each["metadata"]["labels"].get(
        "lockstep.example/role") == "worker"]  # fmt: skip
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("host_rings", [True, False])
def test_what_kubernetes_itself_knows_is_valid_to_the_last_field(
    spec: RunSpec, settings: Settings, version: str, device: str, host_rings: bool
) -> None:
    spec, settings = replace(spec, device=device), replace(settings, host_rings=host_rings)
    job = made(spec, settings, "job")
    for manifest in (job.whole, *(each for _, each in job.owned)):
        kubernetes_validate.validate(manifest, version, strict=True)
    for template in pods(made(spec, settings, "mpijob").whole):
        whole = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {}, "template": template}
        kubernetes_validate.validate(whole, version, strict=True)


def test_a_wrong_field_would_be_found(spec: RunSpec, settings: Settings) -> None:
    job = made(spec, settings, "job").whole
    job["spec"]["template"]["spec"]["hostNetwrk"] = True

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, "1.30", strict=True)


def test_an_mpijob_has_only_fields_of_its_api(spec: RunSpec, settings: Settings) -> None:
    whole = made(spec, settings, "mpijob").whole
    jsonschema.validate(whole["spec"], closed(SPEC))
    wrong = deepcopy(whole["spec"])
    wrong["slotsPerWorkr"] = 1

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, closed(SPEC))


def test_a_workflow_has_only_fields_of_its_api(spec: RunSpec, settings: Settings) -> None:
    whole = made(spec, settings, "argo").whole
    jsonschema.validate(whole["spec"], WORKFLOW)
    templates = {each["name"]: each for each in whole["spec"]["templates"]}

    assert {"chain", "run", "analyze", "report", "measure", "clean-up"} == set(templates)
    assert ["run", "analyze", "report", "measure"] == [
        step["template"] for [step] in templates["chain"]["steps"]
    ]
    assert ["measure"] == [  # without its speed a run is none the worse
        step["template"] for [step] in templates["chain"]["steps"] if "continueOn" in step
    ]
    assert ["mpijobs.kubeflow.org", object_name(spec.run), "--namespace=lockstep-runs"] == (
        templates["clean-up"]["resource"]["flags"]
    )
    for name in ("run", "analyze", "report", "measure"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [templates[name]["container"]], "volumes": whole["spec"]["volumes"],
        }}  # fmt: skip
        kubernetes_validate.validate(pod, "1.30", strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_measures_a_run_is_a_job_that_goes_with_it_and_waits_in_its_queue(
    spec: RunSpec, settings: Settings, version: str
) -> None:
    settings = replace(settings, measured=True, analyzer_image="r/lockstep-watch:1", queue="team")
    owner = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
             "metadata": {"name": object_name(spec.run), "uid": "u"}}  # fmt: skip
    whole = workflow.analysis_job(spec, settings, owner)
    kubernetes_validate.validate(whole, version, strict=True)
    [container] = whole["spec"]["template"]["spec"]["containers"]

    assert "u" == whole["metadata"]["ownerReferences"][0]["uid"]
    assert "team" == whole["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert "r/lockstep-watch:1" == container["image"]
    assert f"/runs/{spec.run}" == container["command"][-1]
    assert {"create jobs.batch", "get jobs.batch"} <= {str(each) for each in rights(settings)}


@pytest.mark.parametrize("kind", ["mpijob", "job", "argo"])
@pytest.mark.parametrize(("team", "told"), [
    ("vision", "vision"), ("", None), ("Speech & Audio", None), ("a" * 64, None),
])  # fmt: skip
def test_every_pod_says_who_pays_where_a_label_can(
    spec: RunSpec, settings: Settings, kind: str, team: str, told: str | None
) -> None:
    whole = made(replace(spec, team=team), settings, kind).whole
    plain = made(spec, settings, kind).whole
    labelled = [whole, *pods(whole)]
    if kind == "argo":
        labelled.append({"metadata": whole["spec"]["podMetadata"]})

    assert len(labelled) > 1
    for each in labelled:
        assert each["metadata"]["labels"].get("lockstep.example/team") == told
    if told is None and not team:
        assert whole == plain


@pytest.mark.parametrize("kind", ["mpijob", "job"])
def test_rings_lie_on_the_node_under_the_pods_uid_and_ras_answers_there(
    spec: RunSpec, settings: Settings, kind: str
) -> None:
    template = worker(made(spec, settings, kind).whole)
    ranks = template["spec"]["containers"][0]
    rings = next(each for each in template["spec"]["volumes"] if each["name"] == "rings")
    mount = next(each for each in ranks["volumeMounts"] if each["name"] == "rings")
    variables = {each["name"]: each.get("value") for each in ranks["env"]}

    assert "/run/lockstep" == rings["hostPath"]["path"]
    assert "$(POD_UID)" == mount["subPathExpr"]
    assert f"{variables['LOCKSTEP_DIR']}/{spec.run}" == mount["mountPath"]
    assert "$(POD_IP):28028" == variables["NCCL_RAS_ADDR"]


@pytest.mark.parametrize("kind", ["mpijob", "job"])
def test_where_host_paths_are_forbidden_the_pod_fits_the_restricted_profile(
    spec: RunSpec, settings: Settings, kind: str
) -> None:
    whole = made(spec, replace(settings, host_rings=False), kind).whole
    for template in pods(whole):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
        assert [] == [each for each in pod["volumes"] if "hostPath" in each]
        assert "initContainers" not in pod
        for container in pod["containers"]:
            assert not container["securityContext"]["allowPrivilegeEscalation"]
            assert ["ALL"] == container["securityContext"]["capabilities"]["drop"]


def test_pods_of_a_run_go_to_nodes_of_their_own_and_ask_for_a_gpu_a_rank(
    spec: RunSpec, settings: Settings
) -> None:
    template = worker(made(spec, settings, "mpijob").whole)
    [rule] = template["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]

    chosen = rule["labelSelector"]["matchLabels"]
    assert chosen.items() <= template["metadata"]["labels"].items()
    assert {"nvidia.com/gpu": "2"} == template["spec"]["containers"][0]["resources"]["limits"]


def test_the_launcher_repeats_the_run_under_the_same_id_with_the_operators_host_file(
    spec: RunSpec, settings: Settings
) -> None:
    can = available(pace=True)
    fault = parse(
        "thermal:rank=1,factor=1.5", nodes=4, ranks_per_node=2, steps=60, available=can
    )  # fmt: skip
    spec = replace(spec, device="cpu", pace=True, faults=(fault,))
    whole = made(spec, settings, "mpijob").whole
    launcher = whole["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    words = shlex.join(launcher["command"])

    assert words.startswith("lockstep run gpt --nodes 4 --ranks-per-node 2")
    assert "--launcher mpirun --hostfile /etc/mpi/hostfile" in words
    assert f"--out /runs/{spec.run} --run-id {spec.run}" in words
    assert "thermal:rank=1,factor=1.5" in words
    variables = {each["name"]: each["value"] for each in launcher["env"]}
    assert "/run/lockstep" == variables["LOCKSTEP_DIR"]
    name = object_name(spec.run)
    assert f"{name}-worker-0.{name}.lockstep-runs.svc" == variables["MASTER_ADDR"]
    assert "collectors" == variables.pop("LOCKSTEP_NODE_NAMES")  # of the launcher alone
    asked = made(spec, replace(settings, submitted="2026-01-01T00:00:00+00:00"), "mpijob").whole
    assert '"LOCKSTEP_SUBMITTED", "value": "2026-01-01T00:00:00+00:00"' in json.dumps(asked)
    assert set(variables) - set(PASSED) <= {
        each for each in variables if each.startswith((*PASSED_PREFIXES, "PRTE_"))
    }


@pytest.mark.parametrize("kind", ["mpijob", "argo"])
def test_every_option_that_a_pod_is_given_is_one_of_ours(
    spec: RunSpec, settings: Settings, kind: str
) -> None:
    chosen = replace(settings, chain=kind == "argo")
    words = command(spec, chosen)
    known = {
        option
        for each in build().registered_commands
        if each.callback is not None and each.callback.__name__ == words[1]
        for option in options(each.callback)
    }

    assert set() == {word for word in words if word.startswith("--")} - known


def options(callback: Any) -> set[str]:
    import typer

    app = typer.Typer()
    app.command()(callback)
    return {option for each in typer.main.get_command(app).params for option in each.opts}


def test_ranks_of_an_indexed_job_meet_at_the_first_pod_by_the_service(
    spec: RunSpec, settings: Settings
) -> None:
    job = made(spec, settings, "job")
    name = object_name(spec.run)
    pod = job.whole["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    [(_, service)] = job.owned

    assert f"--master-addr={name}-0.{name}" in arguments
    assert name == pod["subdomain"] == service["metadata"]["name"]
    assert "None" == service["spec"]["clusterIP"]
    assert service["spec"]["selector"].items() <= worker(job.whole)["metadata"]["labels"].items()
    told = job_file.read(arguments[-1])
    assert (spec.run, 4) == (told.spec.run, told.hosts)


def test_the_operators_host_file_is_one_that_we_read(spec: RunSpec, tmp_path: Any) -> None:
    # As mpi-operator 0.8 writes it for Open MPI, pkg/controller/mpi_job_controller.go.
    name = object_name(spec.run)
    path = tmp_path / "hostfile"
    path.write_text(
        "".join(f"{name}-worker-{i}.{name}.lockstep-runs.svc slots=2\n" for i in range(4))
    )
    hosts = hostfile.read(path)

    hostfile.require(hosts, path, spec.layout.nodes, spec.layout.ranks_per_node)


@pytest.mark.parametrize("kind", ["mpijob", "job", "argo"])
def test_every_name_is_one_that_the_api_takes(spec: RunSpec, settings: Settings, kind: str) -> None:
    widest = replace(spec, run="allreduce-20260101T000000-abcd", layout=Layout(999, 8, 7992))
    whole = made(widest, settings, kind).whole

    assert len(f"{whole['metadata']['name']}-worker-999") <= 63
    assert whole["metadata"]["name"] == whole["metadata"]["name"].lower()
    assert json.loads(json.dumps(whole)) == whole
