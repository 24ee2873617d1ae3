"""A Prometheus, or what speaks its HTTP API, as a source of the dashboard."""

from dashboard.sources.prometheus.source import PrometheusSource

__all__ = ["PrometheusSource"]
