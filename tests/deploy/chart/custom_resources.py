"""Small schemas of the Prometheus operator's objects: closed, and no more than the chart uses.

Written from https://prometheus-operator.dev/docs/api-reference/api (v1 and v1alpha1); its own
definitions are not copied here.
"""

from typing import Any

TEXT = {"type": "string"}
DURATION = {"type": "string", "pattern": r"^(0|([0-9]+(ms|[smhdwy]))+)$"}
LABELS = {"type": "object", "additionalProperties": TEXT}
NAME = {"type": "string", "pattern": r"^[a-zA-Z_][a-zA-Z0-9_]*$"}
METADATA = {"type": "object", "required": ["name", "namespace"]}
SELECTOR = {
    "type": "object", "additionalProperties": False, "properties": {"matchLabels": LABELS},
}  # fmt: skip


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def listed(item: dict[str, Any]) -> dict[str, Any]:
    """A list of them, of at least one."""
    return {"type": "array", "items": item, "minItems": 1}


def manifest(version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of the operator's API."""
    return closed(
        ["apiVersion", "kind", "metadata", "spec"],
        apiVersion={"const": f"monitoring.coreos.com/{version}"}, kind={"const": kind},
        metadata=METADATA, spec=spec,
    )  # fmt: skip


RELABELING = closed(
    [], sourceLabels=listed(NAME), targetLabel=NAME, replacement=TEXT, regex=TEXT, separator=TEXT,
    action={"enum": ["replace", "keep", "drop", "labeldrop", "labelkeep", "labelmap"]},
)  # fmt: skip
POD_MONITOR = manifest("v1", "PodMonitor", closed(
    ["selector", "podMetricsEndpoints"],
    namespaceSelector=closed([], any={"type": "boolean"}, matchNames=listed(TEXT)),
    selector=SELECTOR,
    podMetricsEndpoints=listed(closed(
        ["port"], port=TEXT, interval=DURATION, scrapeTimeout=DURATION,
        relabelings=listed(RELABELING),
    )),
))  # fmt: skip
PROMETHEUS_RULE = manifest("v1", "PrometheusRule", closed(
    ["groups"],
    groups=listed(closed(
        ["name"], name=TEXT, interval=DURATION,
        rules=listed(closed(
            ["expr"], alert=TEXT, record=TEXT, expr=TEXT, labels=LABELS, annotations=LABELS,
            **{"for": DURATION, "keep_firing_for": DURATION},
        )),
    )),
))  # fmt: skip
MATCHER = closed(
    ["name"], name=TEXT, value=TEXT, matchType={"enum": ["=", "!=", "=~", "!~"]},
)  # fmt: skip
ALERTMANAGER_CONFIG = manifest("v1alpha1", "AlertmanagerConfig", closed(
    ["route", "receivers"],
    route=closed(
        ["receiver"], receiver=TEXT, groupBy=listed(TEXT), groupWait=DURATION,
        groupInterval=DURATION, repeatInterval=DURATION, matchers=listed(MATCHER),
        **{"continue": {"type": "boolean"}},
    ),
    inhibitRules=listed(closed(
        [], sourceMatch=listed(MATCHER), targetMatch=listed(MATCHER), equal=listed(TEXT),
    )),
    receivers=listed(closed(
        ["name"], name=TEXT,
        webhookConfigs=listed(closed(
            [], url=TEXT, sendResolved={"type": "boolean"},
            httpConfig=closed([], authorization=closed(
                ["credentials"], type=TEXT, credentials=closed(["key"], name=TEXT, key=TEXT),
            )),
        )),
    )),
))  # fmt: skip

SCHEMAS: dict[str, dict[str, Any]] = {
    "PodMonitor": POD_MONITOR,
    "PrometheusRule": PROMETHEUS_RULE,
    "AlertmanagerConfig": ALERTMANAGER_CONFIG,
}
"""By kind."""
