"""Several runs on one cluster: what they share that holds them back."""

from lockstep.analyzer.cluster.shape import ClusterVerdict, RunView, Span, cluster_json
from lockstep.analyzer.cluster.verdict import cluster, comparable
from lockstep.analyzer.cluster.views import run_view

__all__ = ["ClusterVerdict", "RunView", "Span", "cluster", "cluster_json", "comparable", "run_view"]
