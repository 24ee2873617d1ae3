"""The cluster that a kubeconfig names: the only file of the launchers that speaks to one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.workloads.launch.kubernetes.cluster import (
    ClusterError,
    RefusedError,
    UnreachableError,
)

CONNECT_SECONDS, READ_SECONDS = 3.0, 15.0
AWAY_FROM = 500
"""Statuses from here on are the server's trouble, and pass; 429 too."""
TOO_MANY = 429
ANOTHER = 409
"""To a deletion: the object of that name has another uid."""
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
SHOWN = 300
JSON = "application/json"


class KubeconfigError(ValueError):
    """There is no kubeconfig, or it cannot be used; the message says why."""


class ApiCluster:
    """See cluster.Cluster.

    Args:
        kubeconfig: None = $KUBECONFIG, ~/.kube/config, or the account of the pod that we are in.
        context: One of the kubeconfig's; None = its current one.

    Raises:
        KubeconfigError: The cluster cannot be known from it.
    """

    def __init__(self, kubeconfig: Path | None = None, context: str | None = None) -> None:
        import urllib3
        from kubernetes import client, config
        from urllib3.exceptions import HTTPError, InsecureRequestWarning

        settings = client.Configuration()
        # We ask again ourselves, and tell of it.
        settings.retries = urllib3.Retry(0)
        try:
            if kubeconfig is None and context is None and _inside():
                config.load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=settings
                )
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call]
                    None if kubeconfig is None else str(kubeconfig), context,
                    client_configuration=settings, persist_config=False,
                )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - whatever a hostile file makes of the loader
            name = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
            why = str(error).partition("\n")[0] or type(error).__name__
            raise KubeconfigError(f"the kubeconfig {name} cannot be used: {why[:SHOWN]}") from None
        if not settings.verify_ssl:  # the kubeconfig says so: once is enough
            urllib3.disable_warnings(InsecureRequestWarning)
        self.host = str(settings.host)
        self._client = client.ApiClient(settings)
        self._away: tuple[type[Exception], ...] = (HTTPError, OSError, client.ApiException)

    def read(self, path: str, **query: str) -> dict[str, Any]:
        """See Cluster."""
        return _object(self._ask("GET", path, query))

    def text(self, path: str, **query: str) -> str:
        """See Cluster."""
        return self._ask("GET", path, query).decode(errors="replace")

    def create(self, path: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """See Cluster."""
        return _object(self._ask("POST", path, {}, dict(manifest)))

    def delete(self, path: str, uid: str = "") -> None:
        """See Cluster."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            self._ask("DELETE", path, {}, options)
        except RefusedError as error:
            if error.status not in (404, ANOTHER if uid else 404):
                raise

    def close(self) -> None:
        """Close its connections."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: dict[str, Any] | None = None
    ) -> bytes:
        words = self._client.param_serialize(
            method, path, query_params=list(query.items()), body=body,
            header_params={"Accept": "*/*", **({"Content-Type": JSON} if body else {})},
            auth_settings=["BearerToken"],
        )  # fmt: skip
        try:
            answer = self._client.call_api(*words, _request_timeout=(CONNECT_SECONDS, READ_SECONDS))
            content = bytes(answer.read() or b"")  # type: ignore[no-untyped-call]
        except self._away as error:
            why = str(getattr(error, "reason", "") or error).partition("\n")[0]
            raise UnreachableError(
                f"the API server {self.host} does not answer: {why[:SHOWN] or type(error).__name__}"
            ) from None
        if answer.status < 300:
            return content
        why = f"{method} {path.partition('?')[0]}: {_message(content) or answer.status}"
        if answer.status >= AWAY_FROM or answer.status == TOO_MANY:
            raise UnreachableError(f"the API server {self.host} has trouble: {why}")
        raise RefusedError(answer.status, f"the API server {self.host} refused {why}")


def _inside() -> bool:
    """Whether this is a pod, and nobody says otherwise."""
    own = Path.home() / ".kube" / "config"
    return IN_CLUSTER in os.environ and "KUBECONFIG" not in os.environ and not own.exists()


def _object(content: bytes) -> dict[str, Any]:
    try:
        parsed = bounded_json.loads(content)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ClusterError("the API server answered something that is no object")
    return parsed


def _message(content: bytes) -> str:
    """Of a Status object."""
    try:
        return str(bounded_json.loads(content).get("message", ""))[:SHOWN]
    except (ValueError, AttributeError):
        return ""
