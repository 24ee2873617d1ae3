"""The hardware of a whole fleet, all the time: sequential tests with a budget of false alarms.

`telemetry` -> `residuals` (distance from those who must behave alike) -> `baseline` (own past) ->
`cusum` (evidence in nats) -> `false_alarms` (enough of it?) -> `alarms`. `monitor.watch` is one
pass; `state` is what is remembered, also across restarts.
"""
