"""How a rank is gone that the others wait for."""

from analyzer.run import Finding, Grid
from analyzer.slowness.before_after import query
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics


def gone(grid: Grid, finding: Finding) -> Symptom | None:
    """Its process is gone."""
    so = finding.details.get("state") == "dead"
    text = "its process is gone" if so else "its process was there"
    return Symptom(so, text, query(grid, finding, metrics.RANK_UP.name))


def frozen(grid: Grid, finding: Finding) -> Symptom | None:
    """Its heartbeat stopped while its process was there."""
    so = finding.details.get("state") == "frozen"
    text = (
        "its heartbeat stopped while its process was there"
        if so
        else "no stopped heartbeat was seen"
    )
    return Symptom(so, text, query(grid, finding, metrics.TRAIN_HEARTBEAT_AGE.name))
