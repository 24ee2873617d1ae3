"""Requests of tests to an API server, fake or real, as its administrator or as an account."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Api:
    """A server with its administrator's token, and a kubeconfig with it."""

    url: str
    token: str
    kubeconfig: Path

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json",
        token: str = "",
    ) -> tuple[int, Json]:  # fmt: skip
        """Status and answer."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, content,
            {"Authorization": f"Bearer {token or self.token}", "Content-Type": kind}, method=method,
        )  # fmt: skip
        context = ssl._create_unverified_context() if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")

    def read(self, path: str) -> Json:
        status, tree = self.ask("GET", path)
        assert status == 200, tree
        return tree

    @contextmanager
    def node(self, name: str, **labels: str) -> Iterator[Json]:
        """A node without a kubelet, for as long as the test lasts."""
        status, tree = self.ask("POST", "/api/v1/nodes", a_node(name, labels))
        assert status in (200, 201), tree
        try:
            yield tree
        finally:
            self.ask("DELETE", f"/api/v1/nodes/{name}")


def a_node(name: str, labels: dict[str, str] | None = None) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "t", "message": "",
             "lastTransitionTime": "2026-01-01T00:00:00Z",
             "lastHeartbeatTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true", **(labels or {})}},
        "spec": {}, "status": {"conditions": [ready]},
    }  # fmt: skip
