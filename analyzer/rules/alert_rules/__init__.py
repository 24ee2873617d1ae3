"""The alerts that Prometheus raises by itself: one entry an alert, and the rule files.

`kernel_log`, `gpu`, `links`, `ports`, `training`, `monitor` (tuples of entries) -> `groups`.
Expressions reduce to identity labels (`max by (node, gpu, uuid)`), so that an alert
neither restarts with a pod nor counts twice where two replicas report the same, and say `on (...)`
wherever two sides meet.
"""
