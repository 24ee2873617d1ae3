"""From a panel to the next dashboard and to the page of `lockstep dashboard` about the same.

Both are told run, node, GPU and rank of the series that was clicked, and the range of time.
"""

from collections.abc import Callable

from lockstep.grafana.settings import PREFIX, Json

PAGES = ("now", "cluster", "run", "straggler", "node", "collectives", "runs", "health")
"""Pages of `lockstep dashboard` that links lead to (dashboard/pages)."""
TITLES = {
    "home": "Home", "cluster": "Cluster", "run": "Run", "node": "Node", "straggler": "Straggler",
    "nccl": "Collectives", "self": "Lockstep itself",
}  # fmt: skip
"""Every dashboard, and what it is called."""
CHOICES: dict[str, tuple[str, ...]] = {
    "home": ("run",), "cluster": ("run", "node"), "run": ("run", "node"),
    "node": ("run", "node", "gpu"), "straggler": ("run", "node"), "nccl": ("run", "node"),
    "self": ("run", "node"),
}  # fmt: skip
"""What a reader chooses on each: labels that its queries select by."""


def of_series(label: str) -> str:
    """The label of the series that was clicked, for an address."""
    return f"${{__field.labels.{label}:percentencode}}"


def of_row(label: str) -> str:
    """The cell of that column in the row that was clicked, for an address."""
    return f"${{__data.fields.{label}:percentencode}}"


def lead(
    dashboard: str, page: str, *labels: str, value: Callable[[str], str] = of_series
) -> list[Json]:
    """Two links: to a dashboard, and to a page.

    Args:
        dashboard: Key of TITLES.
        page: One of PAGES; `runs/ledger` is its view of that name.
        labels: What the series are told apart by, of run, node, gpu, rank.
        value: Where the values come from; of_row in a table.
    """
    words = [f"var-{label}={value(label)}" for label in labels if label in CHOICES[dashboard]]
    grafana = "&".join(["${datasource:queryparam}", *words, "${__url_time_range}"])
    page, _, view = page.partition("/")
    own = [f"{label}={value(label)}" for label in labels]
    own += [f"view={view}"] if view else []
    query = "&".join([*own, "from=${__from}", "to=${__to}"])
    path = "/" if page == "now" else f"/{page}"
    return [
        _link(f"Dashboard {TITLES[dashboard]}", f"/d/{PREFIX}{dashboard}?{grafana}", False),
        _link(f"Page {page} of lockstep dashboard", f"${{streamlit_url}}{path}?{query}", True),
    ]


def _link(title: str, url: str, new_tab: bool) -> Json:
    return {"title": title, "url": url, "targetBlank": new_tab}


def of_dashboard() -> list[Json]:
    """Links above every dashboard: to the others, with variables and range kept, and to ours."""
    return [
        {
            "title": "Lockstep", "type": "dashboards", "tags": ["lockstep"], "asDropdown": True,
            "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "external link",
            "tooltip": "The other dashboards, for the same run and range", "url": "",
        },
        {
            "title": "lockstep dashboard", "type": "link", "tags": [], "asDropdown": False,
            "includeVars": False, "keepTime": True, "targetBlank": True, "icon": "dashboard",
            "tooltip": "Findings with their evidence, what-if, reports", "url": "${streamlit_url}/",
        },
    ]  # fmt: skip
