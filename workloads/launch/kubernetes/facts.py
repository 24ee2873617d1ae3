"""What a cluster tells before a run is put onto it; `look` asks, preflight.py judges.

Whoever submits may not be allowed to see all of it: what may not be seen is None, and not judged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lockstep.workloads.launch.kubernetes.cluster import Cluster, RefusedError
from lockstep.workloads.launch.kubernetes.kueue import CLUSTER_QUEUES, FLAVORS, LOCAL_QUEUES
from lockstep.workloads.launch.kubernetes.settings import CLAIM, QUOTA, Resource, Settings
from lockstep.workloads.launch.kubernetes.submission import Right, kinds, rights

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ENFORCED_LABEL = "pod-security.kubernetes.io/enforce"
FORBIDDEN, MISSING = 403, 404
KUEUE_CONFIGURATION = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
KUEUE_FILE = "controller_manager_config.yaml"
"""As both its manifests and its chart install it."""
SEEN = (
    Right("list", "", "nodes"),
    Right("list", QUOTA.group, QUOTA.plural),
    Right("get", "", "namespaces"),
)
"""What `look` asks beyond the rights that a run needs: without them less can be judged."""

Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a cluster and one namespace of it.

    Attributes:
        namespace: None = may not be seen; empty = there is none.
        unknown: Kinds of objects of the run that the API does not have.
        denied: Rights that are missing.
        claim: Empty = there is none.
        quotas: Of the namespace.
        nodes: Of the cluster.
        queue: The LocalQueue that the run names; empty = there is none, None also = it names none.
        cluster_queue: The ClusterQueue behind it, likewise.
        flavors: ResourceFlavors by name, as far as they may be seen.
        kueue_resources: `resources` of Kueue's own configuration, which may leave some out of the
            count; None = it may not be seen, or is not where Kueue's installation puts it.
    """

    namespace: Told | None = None
    unknown: tuple[Resource, ...] = ()
    denied: tuple[Right, ...] = ()
    claim: Told | None = None
    quotas: tuple[Told, ...] | None = None
    nodes: tuple[Told, ...] | None = None
    queue: Told | None = None
    cluster_queue: Told | None = None
    flavors: Mapping[str, Told] = field(default_factory=dict)
    kueue_resources: Told | None = None

    @property
    def enforced(self) -> str:
        """The Pod Security profile of the namespace; empty = none, or not known."""
        return str(_metadata(self.namespace).get("labels", {}).get(ENFORCED_LABEL, ""))

    @property
    def allows_host_paths(self) -> bool:
        """Whether pods may mount folders of the node."""
        return self.enforced not in ("baseline", "restricted")


def look(cluster: Cluster, settings: Settings) -> Facts:
    """Ask the API; a dozen small questions.

    Raises:
        ClusterError: It does not answer, or does not know us.
    """
    namespace = settings.namespace
    queue, cluster_queue, flavors = _queues(cluster, settings)
    return Facts(
        namespace=_one(cluster, f"/api/v1/namespaces/{namespace}"),
        unknown=tuple(kind for kind in kinds(settings) if not _served(cluster, kind)),
        denied=tuple(
            right for right in rights(settings) if not _allowed(cluster, namespace, right)
        ),
        claim=_one(cluster, CLAIM.path(namespace, settings.claim)),
        quotas=_all(cluster, QUOTA.path(namespace)),
        nodes=_all(cluster, "/api/v1/nodes"),
        queue=queue,
        cluster_queue=cluster_queue,
        flavors={str(_metadata(flavor).get("name")): flavor for flavor in flavors},
        kueue_resources=_kueue_resources(cluster) if cluster_queue else None,
    )


def _queues(
    cluster: Cluster, settings: Settings
) -> tuple[Told | None, Told | None, tuple[Told, ...]]:
    """The queue that the run names, the ClusterQueue behind it, and flavors.

    In the newest version that is served.
    """
    if not settings.queue:
        return None, None, ()
    for local, whole, flavors in zip(LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS, strict=True):
        if not _served(cluster, local):
            continue
        queue = _one(cluster, local.path(settings.namespace, settings.queue))
        name = str(((queue or {}).get("spec") or {}).get("clusterQueue", ""))
        if not name:
            return queue, None, ()
        path = f"{whole.group_path}/{whole.plural}/{name}"
        seen = _all(cluster, f"{flavors.group_path}/{flavors.plural}")
        return queue, _one(cluster, path), seen or ()
    return None, None, ()


def _kueue_resources(cluster: Cluster) -> Told | None:
    import yaml  # of the kubernetes package

    text = ((_one(cluster, KUEUE_CONFIGURATION) or {}).get("data") or {}).get(KUEUE_FILE)
    try:
        configuration = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return None
    if not isinstance(configuration, dict):
        return None
    resources = configuration.get("resources") or {}
    return resources if isinstance(resources, dict) else None


def _one(cluster: Cluster, path: str) -> Told | None:
    try:
        return cluster.read(path)
    except RefusedError as error:
        if error.status == MISSING:
            return {}
        if error.status == FORBIDDEN:
            return None
        raise


def _all(cluster: Cluster, path: str) -> tuple[Told, ...] | None:
    response = _one(cluster, path)
    return None if response is None else tuple(response.get("items") or ())


def _served(cluster: Cluster, resource: Resource) -> bool:
    known: Iterable[Told] = (_one(cluster, resource.group_path) or {}).get("resources") or ()
    return any(each.get("name") == resource.plural for each in known)


def _allowed(cluster: Cluster, namespace: str, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    asked = {"namespace": namespace, "verb": right.verb, "group": right.group, "resource": resource}
    if subresource:
        asked["subresource"] = subresource
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(cluster.create(REVIEWS, review).get("status", {}).get("allowed"))


def _metadata(manifest: Told | None) -> Told:
    metadata: Told = (manifest or {}).get("metadata") or {}
    return metadata
