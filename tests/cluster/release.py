"""The chart as a release in a real API server, and what is there of it."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml
from helm_python import Config
from kubernetes import client, config, dynamic

from lockstep.collector.contract.kubernetes import BREAKER, LEASE, PAUSE
from tests.cluster.control_plane import ControlPlane
from tests.deploy.chart.chart import CHART, Manifest, values_files
from tests.deploy.chart.custom_resources import SCHEMAS

NAME = "lockstep"
NAMESPACE, COLLECTORS, RUNS = "of-the-chart", "of-the-collectors", "of-the-runs"
"""Of their own, so that other tests of the same API server are not met."""
WAIT_SECONDS = 300.0
"""With patience: how long it takes is judged where it matters, against the machine's slowness."""
GROUPS = ("v1", "apps/v1", "coordination.k8s.io/v1", "networking.k8s.io/v1",
          "rbac.authorization.k8s.io/v1",
          "monitoring.coreos.com/v1", "monitoring.coreos.com/v1alpha1")  # fmt: skip

# Every part. Kubernetes 1.20 does not know internalTrafficPolicy, and here are no runtime class, no
# Secrets and nobody who provisions volumes.
VALUES: Mapping[str, Any] = values_files()["everything"] | {
    "collector": {
        "namespace": COLLECTORS,
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "maxUnavailable": "100%",  # an update of all nodes at once is over sooner
    },
    "watch": {"persistence": {"enabled": False}},
    "dashboard": {},
    "prometheus": {},
    "runs": {"enabled": True, "namespace": RUNS},
}


class Release:
    """The release `lockstep`, by the real Helm.

    Attributes:
        helm: As the administrator.
        nodes: Of the control plane.
    """

    def __init__(self, plane: ControlPlane) -> None:
        path = str(plane.kubeconfig())
        self.helm = Config(kubeconfig_path=path, namespace=NAMESPACE)
        self.nodes = plane.nodes
        self._api = dynamic.DynamicClient(config.new_client_from_config(path))

    def define_custom_resources(self) -> None:
        """The kinds of the Prometheus operator; what is in them is checked elsewhere."""
        until(lambda: not any(self._served(kind) for kind in SCHEMAS))  # of a test before
        for kind, schema in SCHEMAS.items():
            group, version = schema["properties"]["apiVersion"]["const"].split("/")
            self._kind("apiextensions.k8s.io/v1", "CustomResourceDefinition").create(
                _definition(kind, group, version)
            )
        until(lambda: all(self._served(kind) for kind in SCHEMAS))

    def forget_custom_resources(self) -> None:
        """Take the operator's kinds away."""
        for kind, schema in SCHEMAS.items():
            group, _ = schema["properties"]["apiVersion"]["const"].split("/")
            self._kind("apiextensions.k8s.io/v1", "CustomResourceDefinition").delete(
                name=f"{kind.lower()}s.{group}"
            )

    def install(self, values: Mapping[str, Any]) -> None:
        """As `helm install --create-namespace`; it waits for no pod."""
        self.helm.install(CHART, NAME, dict(values), create_namespace=True, timeout=300)

    def upgrade(self, values: Mapping[str, Any]) -> None:
        """As `helm upgrade`."""
        self.helm.upgrade(CHART, NAME, dict(values), timeout=300)

    def uninstall(self) -> None:
        """As `helm uninstall`, and the namespace that install has made."""
        self.helm.uninstall(NAME, timeout=300, ignore_not_found=True)

    @property
    def notes(self) -> str:
        """What Helm tells whoever has installed it."""
        return str(self.helm.status(NAME)["notes"])

    def test(self, says: Callable[[], int]) -> None:
        """As `helm test`, on a node that runs nothing.

        Args:
            says: In place of the container of its pod; what it exits with.

        Raises:
            HelmError: The test failed.
        """
        pods = self._kind("v1", "Pod")

        def runs() -> None:
            until(lambda: "lockstep-test" in self.phases_by_name())
            phase = "Failed" if says() else "Succeeded"
            pods.status.patch(
                {"status": {"phase": phase}}, name="lockstep-test", namespace=NAMESPACE,
                content_type="application/merge-patch+json",
            )  # fmt: skip

        with ThreadPoolExecutor(1) as kubelet:
            ran = kubelet.submit(runs)
            try:
                self.helm.test(NAME, timeout=300)
            finally:
                ran.result()

    def delete_test(self) -> None:
        """The pod of a test that failed: it stays for its log, and no uninstall knows of it."""
        try:
            self._kind("v1", "Pod").delete(name="lockstep-test", namespace=NAMESPACE)
        except client.ApiException as error:
            if error.status != 404:
                raise

    def phases_by_name(self) -> dict[str, str]:
        """Pod -> phase, of the release's own namespace."""
        found = self._kind("v1", "Pod").get(namespace=NAMESPACE)
        return {one.metadata.name: one.status.phase for one in found.items}

    def said_of(self, name: str, status: Mapping[str, Any]) -> None:
        """What a kubelet would say of a pod."""
        self._kind("v1", "Pod").status.patch(
            {"status": dict(status)}, name=name, namespace=NAMESPACE,
            content_type="application/merge-patch+json",
        )  # fmt: skip

    def lead(self) -> dict[str, Any]:
        """Write the lease as `lockstep nodes` and a human do; it as it is then."""
        return self._merged({
            "metadata": {"annotations": {BREAKER: "{}", PAUSE: "maintenance"}},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 30},
        })  # fmt: skip

    def lease(self) -> dict[str, Any]:
        """What is written of the lease: annotations of ours, and the spec."""
        return self._merged({})

    def manifests(self) -> list[Manifest]:
        """What Helm says that the release consists of."""
        text = self.helm.status(NAME)["manifest"]
        return [each for each in yaml.safe_load_all(text) if each]

    def read(self, manifest: Manifest) -> dict[str, Any] | None:
        """The object as the server has it."""
        kind = self._kind(manifest["apiVersion"], manifest["kind"])
        try:
            found = kind.get(
                name=manifest["metadata"]["name"], namespace=manifest["metadata"].get("namespace")
            )
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise
        return dict(found.to_dict())

    def phases(self, component: str, namespace: str = NAMESPACE) -> dict[str, str]:
        """Node -> phase of the component's pod there."""
        found = self._kind("v1", "Pod").get(
            namespace=namespace, label_selector=f"app.kubernetes.io/component={component}"
        )
        return {
            one.spec.nodeName: one.status.phase
            for one in found.items
            if one.metadata.deletionTimestamp is None
        }

    def left(self) -> list[str]:
        """Every object of the chart, and every Secret in which Helm keeps a release."""
        return sorted(
            f"{kind.kind} {one.metadata.name}"
            for kind in self._kinds()
            for selector in ("app.kubernetes.io/name=lockstep", "owner=helm")
            for one in kind.get(label_selector=selector).items
        )

    def secret_bytes(self) -> int:
        """Of the largest Secret in which Helm keeps a revision."""
        found = self._kind("v1", "Secret").get(namespace=NAMESPACE, label_selector="owner=helm")
        return max(len(one.data["release"]) for one in found.items)

    def _merged(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._kind("coordination.k8s.io/v1", "Lease").patch(
            body, name=LEASE, namespace=NAMESPACE, content_type="application/merge-patch+json"
        )
        found = answer.to_dict()
        notes = found["metadata"].get("annotations") or {}
        ours = {name: value for name, value in notes.items() if name in (BREAKER, PAUSE)}
        return {"annotations": ours, "spec": found.get("spec") or {}}

    def _kind(self, version: str, kind: str) -> Any:
        return self._api.resources.get(api_version=version, kind=kind)

    def _served(self, kind: str) -> bool:
        version = SCHEMAS[kind]["properties"]["apiVersion"]["const"]
        self._api.resources.invalidate_cache()
        try:
            self._kind(version, kind).get()
        except (client.ApiException, dynamic.exceptions.ResourceNotFoundError):
            return False
        return True

    def _kinds(self) -> list[Any]:
        found = [kind for group in GROUPS for kind in self._api.resources.search(api_version=group)]
        return [
            kind
            for kind in found
            if "list" in (getattr(kind, "verbs", None) or ()) and not kind.kind.endswith("List")
        ]


def _definition(kind: str, group: str, version: str) -> Manifest:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip


def until(true: Callable[[], bool], seconds: float = WAIT_SECONDS) -> float:
    """Wait for it, and say how long that was, in seconds.

    Raises:
        TimeoutError: It did not become true in time.
    """
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > seconds:
            raise TimeoutError(f"not in {seconds:g} s")
        time.sleep(0.1)
    return time.monotonic() - begun
