"""Every request to a cluster, through the kubernetes client, and the rights that they need.

Requests are made by the client's own `ApiClient`, without its classes of one file an object: those
cost two seconds and 22 MB, and refuse objects that are merely newer than they are.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.kubernetes import LEASE, NAMESPACE
from lockstep.watch.kubernetes.shapes import (
    ApiError,
    ConflictError,
    GoneError,
    LacksRightError,
    RefusedError,
    SetupError,
    UnreachableError,
)

# The exact rights of `lockstep nodes`: one row for each call that this file makes.
#
# The chart's roles equal these rows, and tests make every call with them and nothing else.

EVENT_NAMESPACE = "default"
"""Where core/v1 events about nodes lie, as those of the kubelet do
(docs/method/node-conditions.md)."""


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done.

    Attributes:
        namespace: Of a Role; empty = a ClusterRole.
        group: Of the API; empty = core.
        resource: With its subresource.
        verbs: In the order of RBAC's own documentation.
        names: Of the only objects (resourceNames); empty = any.
    """

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


RIGHTS: tuple[Right, ...] = (
    Right("", "", "nodes", ("get", "list")),
    # Conditions and our annotation in one patch; what is under spec stays as it is.
    Right("", "", "nodes/status", ("patch",)),
    Right(EVENT_NAMESPACE, "", "events", ("create",)),
    # RBAC cannot limit `create` by name, so the chart brings the lease, and nobody may make others.
    # Where there is none it is created all the same, by an account that may.
    Right(NAMESPACE, "coordination.k8s.io", "leases", ("get", "patch"), (LEASE,)),
)
"""Of mode annotate; `lockstep nodes --remove` needs the rows of nodes, and `get` of the lease."""
OBSERVE = RIGHTS[:1]
"""Of mode observe, which reads alone."""
DRY_RUN = (RIGHTS[0], RIGHTS[2])
"""Of mode annotate with --dry-run: nodes and events; it holds no lease."""


CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 10.0
PAGE = 500
"""Nodes in one answer."""
MAX_REASON = 200
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
"""Of an object: a DNS subdomain. The server decodes slashes in names, so others are not asked."""
_OF_RBAC = re.compile(r'User ".*" cannot \w+ resource "')
"""What the authorizer says; admission, a quota or a webhook, answers 403 in other words."""
Json = dict[str, Any]


class Cluster:
    """A cluster, as one account.

    Args:
        kubeconfig: None = the account of this pod, or else KUBECONFIG or ~/.kube/config.
        context: Of the kubeconfig; None = its current one.

    Raises:
        SetupError: There is no usable configuration.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        self._client = _client(kubeconfig, context)

    @property
    def url(self) -> str:
        """Of the API server."""
        return str(self._client.configuration.host)

    def nodes(self, selector: str = "") -> list[Json]:
        """All nodes, or those that a label selector chooses.

        Raises:
            ApiError: They cannot be listed.
        """
        found: list[Json] = []
        query = [("limit", str(PAGE)), *([("labelSelector", selector)] if selector else [])]
        more = ""
        while True:
            tree = self._ask("GET", NODES, query + ([("continue", more)] if more else []))
            found += tree.get("items") or []
            more = tree.get("metadata", {}).get("continue") or ""
            if not more:
                return found

    def node(self, name: str) -> Json:
        """One node.

        Raises:
            ApiError: It cannot be read.
        """
        return self._ask("GET", NODES + "/{name}", name=name)

    def patch_status(self, name: str, body: Json) -> Json:
        """A strategic merge patch of a node's status and metadata.

        Raises:
            ApiError: It was not taken.
        """
        return self._ask("PATCH", NODES + "/{name}/status", body=body, kind=STRATEGIC, name=name)

    def create_event(self, body: Json) -> None:
        """An event; one that exists already was told.

        Raises:
            ApiError: It was not taken.
        """
        path = "/api/v1/namespaces/{namespace}/events"
        try:
            self._ask("POST", path, body=body, namespace=EVENT_NAMESPACE)
        except ConflictError:
            return

    def lease(self, namespace: str, name: str) -> Json | None:
        """A lease; None = there is none.

        Raises:
            ApiError: It cannot be read.
        """
        try:
            return self._ask("GET", LEASES + "/{name}", namespace=namespace, name=name)
        except GoneError:
            return None

    def create_lease(self, namespace: str, body: Json) -> Json:
        """A new lease.

        Raises:
            ApiError: It was not taken; ConflictError = somebody else was faster.
        """
        return self._ask("POST", LEASES, body=body, namespace=namespace)

    def patch_lease(self, namespace: str, name: str, body: Json) -> Json:
        """A merge patch of a lease.

        Raises:
            ApiError: It was not taken; ConflictError = somebody else was faster.
        """
        path = LEASES + "/{name}"
        return self._ask("PATCH", path, body=body, kind=MERGE, namespace=namespace, name=name)

    def delete_lease(self, namespace: str, name: str, version: str) -> None:
        """Delete a lease, if it is still of that version; one that is gone is gone.

        Raises:
            ApiError: It is still there; ConflictError = somebody wrote it meanwhile.
        """
        body = {"kind": "DeleteOptions", "apiVersion": "v1",
                "preconditions": {"resourceVersion": version}}  # fmt: skip
        try:
            self._ask("DELETE", LEASES + "/{name}", body=body, namespace=namespace, name=name)
        except GoneError:
            return

    def _ask(
        self, method: str, path: str, query: list[tuple[str, str]] | None = None,
        body: Json | None = None, kind: str = "application/json", **names: str,
    ) -> Json:  # fmt: skip
        import urllib3

        what = f"{method} {path.format(**names)}"
        if wrong := [name for name in names.values() if not _NAME.fullmatch(name)]:
            raise GoneError(f"{wrong[0]!r} is no name of the API")
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = kind
        try:
            request = self._client.param_serialize(
                method, path, path_params=names, query_params=query or [], header_params=headers,
                body=body, auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = self._client.call_api(
                *request, _request_timeout=(CONNECT_SECONDS, ANSWER_SECONDS)
            )
            status, content = int(answer.status), answer.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise UnreachableError(
                f"{self.url} does not answer ({type(error).__name__})"
            ) from error
        if 200 <= status < 300:
            return _tree(content, what)
        raise _error(status, content, what)


def _tree(content: bytes, what: str) -> Json:
    try:
        tree = bounded_json.loads(content)
    except ValueError as error:
        raise UnreachableError(f"{what} was not answered by an API server") from error
    if not isinstance(tree, dict):
        raise UnreachableError(f"{what} was not answered by an API server")
    return tree


def _error(status: int, content: bytes, what: str) -> ApiError:
    try:
        said = bounded_json.loads(content).get("message", "")
    except (ValueError, AttributeError):
        said = content[:MAX_REASON].decode("utf-8", "replace")
    words = " ".join(str(said).split())[:MAX_REASON]
    text = "".join(letter if letter.isprintable() else "?" for letter in words)
    sentence = f"{what} is answered {status}" + (f": {text}" if text else "")
    if status in (404, 410):
        return GoneError(sentence)
    if status == 409:
        return ConflictError(sentence)
    if status == 401:
        return LacksRightError(f"{sentence}; the token is wrong or too old")
    if status == 403 and _OF_RBAC.search(str(said)):
        return LacksRightError(f"{sentence}; the account lacks that right")
    if status == 429 or status >= 500:
        return UnreachableError(sentence)
    return RefusedError(sentence)


def _client(kubeconfig: Path | None, context: str | None) -> Any:
    try:
        from kubernetes import client
        from kubernetes import config as reading
    except ImportError as error:
        raise SetupError(
            "the kubernetes client is not installed; install lockstep-monitor[kubernetes]"
        ) from error
    config: Any = reading
    settings: Any = client.Configuration()
    # Retries are made by who asks: a write that was lost on the way may have arrived.
    settings.retries = False
    try:
        if kubeconfig is None and context is None and _in_a_pod():
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(
                None if kubeconfig is None else str(kubeconfig), context,
                client_configuration=settings, persist_config=False,
            )  # fmt: skip
    except Exception as error:
        where = "kubeconfig" if kubeconfig is None else f"kubeconfig {kubeconfig}"
        why = str(error).partition("\n")[0][:MAX_REASON] or type(error).__name__
        raise SetupError(f"the {where} cannot be used: {why}") from error
    return client.ApiClient(settings)


def _in_a_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ
