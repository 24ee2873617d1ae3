"""A Prometheus, or what speaks its HTTP API, as a source of the dashboard."""

from lockstep.dashboard.sources.prometheus.source import PrometheusSource

__all__ = ["PrometheusSource"]
