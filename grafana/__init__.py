"""Grafana's dashboards: generated from Python, committed as JSON.

`links`, `targets`, `panels`, `variables`, `annotations` (small builders of plain dicts) ->
`dashboards/` (one file a dashboard) -> `book` (every dashboard by its file) -> `json/`. The model
is Grafana's classic one: https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/
"""
