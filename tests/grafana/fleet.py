"""Half an hour of three nodes with two GPUs and ranks each, for a real Prometheus to answer from.

Made from the contract: every metric with every label. Values differ between nodes, so that what is
equal to, above and below a limit is all there. It tests queries, and nothing about hardware.
"""

import itertools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lockstep.collector.contract.metrics import EXPORTED, Kind, Metric
from tests.grafana.test_contract import RECORDED

START = 1_700_000_000
END = START + 1800
STEP = 15
NODES = range(3)
# What queries match; every other label is called after itself.
WORDS = {
    "sensor": "gpu", "domain": "sm", "direction": "transmit", "type": "uncorrected",
    "mode": "user", "phase": "checkpoint", "scope": "some", "tier": "page", "le": "1.0",
    "kind": "np_cnp_sent", "health": "error", "world_size": "6", "dp": "0", "pp": "0", "tp": "0",
    "attempt": "0", "xid": "79", "alertname": "LockstepStragglerNode", "alertstate": "firing",
}  # fmt: skip
# Everywhere 0, so that what should be 1 is told as wrong.
ZERO = {
    "lockstep_reference_run_success", "lockstep_gpu_pcie_link_width", "lockstep_source_up",
}  # fmt: skip
# Rises although it is no counter: a node that boots in the range.
RISING = {"lockstep_boot_time_seconds"}
PLACED = {"node", "gpu", "uuid", "rank", "instance"}


def page() -> str:
    """All of it as OpenMetrics."""
    recorded = [Metric(name, Kind.GAUGE, tuple(sorted(of)), "") for name, of in RECORDED.items()]
    lines = [
        line
        for exporter, metrics in EXPORTED.items()
        for metric in metrics.values()
        for one in metric.parts or (metric,)
        for line in _metric(one, exporter)
    ]
    lines += [line for metric in recorded for line in _metric(metric, "rules")]
    alert = Metric("ALERTS", Kind.GAUGE, ("alertname", "alertstate", "severity", "node", "run"), "")
    # What several programs export alike is one series here.
    return "\n".join([*dict.fromkeys(lines), *_metric(alert, "rules"), "# EOF\n"])


def stored(folder: Path) -> Path:
    """The blocks of a Prometheus that holds it."""
    promtool = shutil.which("promtool")
    assert promtool is not None
    (folder / "page").write_text(page())
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", folder / "page", folder / "db"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder / "db"


def _metric(metric: Metric, exporter: str) -> Iterator[str]:
    names = dict.fromkeys(metric.labels)
    if exporter == "collector":
        names |= {"node": None, "instance": None}
    bounds = ("1.0", "+Inf") if "le" in names else ("",)
    for node, gpu, bound in itertools.product(NODES, range(2), bounds):
        if gpu and not {"gpu", "uuid", "rank"} & names.keys():
            continue
        if node and exporter != "collector" and not PLACED & names.keys():
            continue
        if (metric.name, node) == ("lockstep_build_info", 1):  # a silent node
            continue
        own = {
            "node": f"node-{node}", "instance": f"node-{node}:9410", "gpu": str(gpu),
            "uuid": f"GPU-{node}{gpu}", "rank": str(node * 2 + gpu), "run": "gpt-1", "le": bound,
        }  # fmt: skip
        labels = ",".join(f'{name}="{own.get(name, WORDS.get(name, name))}"' for name in names)
        level = (0.0, 1.0, 3.0)[node] if PLACED & names.keys() else 1.0
        level = 0.0 if metric.name in ZERO else level
        rises = metric.kind is Kind.COUNTER or metric.name in RISING
        for at in range(START, END + 1, STEP):
            value = level * (at - START) / 4 if rises else level
            yield f"{metric.name}{{{labels}}} {value:g} {at}"
