"""JobSet v0.13, jobset.x-k8s.io/v1alpha2: what it makes of a JobSet that people write.

Sources: https://github.com/kubernetes-sigs/jobset at 08dfbdf (v0.13.0-devel):
api/jobset/v1alpha2/jobset_types.go (schema, CEL rules), pkg/webhooks/jobset_webhook.go (defaults,
refusals, what may change).
"""

from copy import deepcopy
from typing import Any

from tests.cluster.controllers import (
    DNS_1035,
    DOMAIN_PATH,
    InvalidError,
    Manifest,
    at,
    broken,
    filled,
    unchanged,
)

VERSION = "v0.13"
DEFAULTS = {
    "spec.successPolicy": {"operator": "All"},
    "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "spec.network": {},
    "spec.network.enableDNSHostnames": True,
    "spec.network.publishNotReadyAddresses": True,
    "spec.failurePolicy.restartStrategy": "Recreate",
    "spec.replicatedJobs.*.replicas": 1,
    "spec.replicatedJobs.*.groupName": "default",
    "spec.replicatedJobs.*.template.spec.completionMode": "Indexed",
    "spec.replicatedJobs.*.template.spec.template.spec.restartPolicy": "OnFailure",
}
IMMUTABLE = (
    "spec.network", "spec.successPolicy", "spec.failurePolicy", "spec.startupPolicy",
    "spec.volumeClaimPolicies", "spec.managedBy",
)  # fmt: skip
STRATEGIES = ("Recreate", "BlockingRecreate", "InPlaceRestart")
WHILE_SUSPENDED = ("nodeSelector", "tolerations", "schedulingGates")
"""Of a pod's spec, with labels and annotations: what Kueue changes."""


def admitted(jobset: Manifest, before: Manifest | None = None) -> Manifest:
    """As it is kept, with its defaults.

    Raises:
        InvalidError: The schema, a CEL rule or the webhook refuses it.
    """
    jobset = filled(jobset, DEFAULTS)
    said = broken(jobset, [
        ("spec: StartupPolicy and DependsOn APIs are mutually exclusive", lambda each: not (
            at(each, "spec.startupPolicy.startupPolicyOrder") == "InOrder"
            and any("dependsOn" in job for job in _jobs(each))
        )),
        ("spec.ttlSecondsAfterFinished: must be at least 0",
         lambda each: at(each, "spec.ttlSecondsAfterFinished", 0) >= 0),
        ("spec.failurePolicy.restartStrategy: not supported",
         lambda each: at(each, "spec.failurePolicy.restartStrategy", "Recreate") in STRATEGIES),
        ("spec.managedBy: must be a domain-prefixed path of at most 63 characters",
         lambda each: _is_manager(at(each, "spec.managedBy", "a/b"))),
        ("spec.network.subdomain: must be a DNS label",
         lambda each: bool(DNS_1035.fullmatch(at(each, "spec.network.subdomain", "a")))),
        ("spec.successPolicy.targetReplicatedJobs: does not appear in .spec.ReplicatedJobs",
         lambda each: set(at(each, "spec.successPolicy.targetReplicatedJobs", ()))
         <= {job["name"] for job in _jobs(each)}),
    ])  # fmt: skip
    if before is None:
        said += _names(jobset)
    else:
        said += _changes(before, jobset)
    if said:
        raise InvalidError(said)
    return jobset


def hostname(jobset: Manifest, job: str, index: int, pod: int) -> str:
    """What a pod is called in the network of its JobSet: ranks meet by it."""
    jobset = admitted(jobset)
    name = jobset["metadata"]["name"]
    return f"{name}-{job}-{index}-{pod}.{at(jobset, 'spec.network.subdomain', name)}"


def _names(jobset: Manifest) -> list[str]:
    said, name, known = [], jobset["metadata"]["name"], set()
    for place, job in enumerate(_jobs(jobset)):
        known.add(job["name"])
        last = f"{name}-{job['name']}-{job['replicas'] - 1}"
        if not DNS_1035.fullmatch(last):
            said.append(f"JobSet name is too long, or {last} is no DNS label")
        completions = at(job, "template.spec.completions")
        if completions and not DNS_1035.fullmatch(f"{last}-{completions - 1}-abcde"):
            said.append("JobSet name is too long, pod names generated for it exceed 63 characters")
        if not DNS_1035.fullmatch(job["groupName"]):
            said.append(".spec.replicatedJob[].groupName is no DNS label")
        if place == 0 and "dependsOn" in job:
            said.append("DependsOn can't be set for the first ReplicatedJob")
        said += [f"{job['name']} cannot depend on {one['name']}"
                 for one in job.get("dependsOn", ()) if one["name"] not in known]  # fmt: skip
    return said


def _changes(before: Manifest, after: Manifest) -> list[str]:
    said = unchanged(filled(before, DEFAULTS), after, IMMUTABLE, "Value is immutable")
    old, new = (
        [deepcopy(job) for job in _jobs(each)] for each in (filled(before, DEFAULTS), after)
    )
    if at(before, "spec.suspend") or at(after, "spec.suspend"):
        for job in (*old, *new):
            template = job["template"]["spec"]["template"]
            template.pop("metadata", None)
            for field in WHILE_SUSPENDED:
                template["spec"].pop(field, None)
    return said + (["spec.replicatedJobs: field is immutable"] if old != new else [])


def _is_manager(name: str) -> bool:
    return len(name) <= 63 and bool(DOMAIN_PATH.fullmatch(name))


def _jobs(jobset: Manifest) -> list[dict[str, Any]]:
    return list(at(jobset, "spec.replicatedJobs", []))
