"""The Pod Security Standard `restricted`, as far as the fields of our pods go.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards (baseline and
restricted, Linux pods). The API server of the tests is too old to have the admission plug-in.
"""

from collections.abc import Iterator, Mapping
from typing import Any

VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim",
    "projected", "secret",
}  # fmt: skip
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
}  # fmt: skip
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")


def violations(template: Mapping[str, Any]) -> list[str]:
    """What a pod template has that `restricted` forbids, as field and value; empty = it fits."""
    return [*_of_pod(template["spec"], template["metadata"]), *_of_containers(template["spec"])]


def _of_pod(spec: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    for volume in spec.get("volumes", ()):
        for kind in volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']}: {kind}"
    for sysctl in spec.get("securityContext", {}).get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"
    for name, value in metadata.get("annotations", {}).items():
        if name.startswith(APPARMOR) and value == "unconfined":
            yield f"{name}: {value}"


def _of_containers(spec: Mapping[str, Any]) -> Iterator[str]:
    pod = spec.get("securityContext", {})
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind, ()):
            for words in _of_container(container.get("securityContext", {}), pod):
                yield f"{container['name']}: {words}"
            for port in container.get("ports", ()):
                if port.get("hostPort"):
                    yield f"{container['name']}: hostPort {port['hostPort']}"


def _of_container(own: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation is not false"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot is not true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "runAsUser 0"
    if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in PROFILES:
        yield "no seccompProfile"
    if own.get("procMount", "Default") != "Default":
        yield "procMount"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield "capabilities are not dropped"
    for added in set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield f"capability {added}"
