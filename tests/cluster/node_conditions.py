"""`lockstep nodes` in this process, with a page of watch and a clock that are set by hand."""

from dataclasses import dataclass, field
from typing import Any

from lockstep.collector.contract.kubernetes import API_DOMAIN, FAULTS, LEASE
from lockstep.watch.kubernetes.client import Cluster
from lockstep.watch.kubernetes.loop import Acting, Settings
from lockstep.watch.kubernetes.shapes import Fault, Mode, WatchState
from tests.cluster.asking import Api

START = 1_800_000_000.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/lockstep/leases"
EVENTS = "/api/v1/namespaces/default/events"
XID = Fault("xid-1", "xid", gpu="3")
SLOW = Fault("host-cpu-1", "host-cpu", "gpt", rank="12")


@dataclass
class Scene:
    """What watch says, and when.

    Attributes:
        nodes: Those that are heard.
    """

    nodes: list[str]
    faults: dict[str, tuple[Fault, ...]] = field(default_factory=dict)
    now: float = START

    def read(self) -> WatchState:
        heard = dict.fromkeys(self.nodes, self.now)
        return WatchState(self.now, 1.0, True, heard, dict(self.faults), frozenset(self.nodes))

    def acting(
        self, cluster: Any, selector: str = "", mode: Mode = Mode.ANNOTATE, me: str = "me",
        dry_run: bool = False, lease: float = 0.0,
    ) -> Acting:  # fmt: skip
        settings = Settings("http://watch", mode, dry_run, selector, lease=lease)
        return Acting(settings, cluster, self.read, me, lambda: self.now)


def cluster_of(api: Api) -> Cluster:
    return Cluster(api.kubeconfig)


def statuses(api: Api, name: str) -> dict[str, str]:
    """Of our conditions of a node, without the domain."""
    conditions = api.read(f"/api/v1/nodes/{name}")["status"].get("conditions") or []
    return {
        one["type"].removeprefix(f"{API_DOMAIN}/"): one["status"]
        for one in conditions
        if one["type"].startswith(API_DOMAIN)
    }


def faults_of(api: Api, name: str) -> str | None:
    metadata = api.read(f"/api/v1/nodes/{name}")["metadata"]
    return (metadata.get("annotations") or {}).get(FAULTS)


def events_about(api: Api, *names: str) -> list[tuple[str, str, str]]:
    """Node, reason and message of ours, sorted."""
    return sorted(
        (one["involvedObject"]["name"], one["reason"], one["message"])
        for one in api.read(EVENTS)["items"]
        if one["involvedObject"]["name"] in names
        and one.get("source", {}).get("component", "").startswith(API_DOMAIN)
    )


def forget_lease(api: Api) -> None:
    api.ask("DELETE", f"{LEASES}/{LEASE}")
