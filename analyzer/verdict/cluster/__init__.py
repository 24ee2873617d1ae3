"""Several runs on one cluster: what they share that holds them back."""

from lockstep.analyzer.verdict.cluster.shape import ClusterVerdict, RunView, Span, cluster_json
from lockstep.analyzer.verdict.cluster.verdict import cluster, comparable
from lockstep.analyzer.verdict.cluster.views import run_view

__all__ = ["ClusterVerdict", "RunView", "Span", "cluster", "cluster_json", "comparable", "run_view"]
