"""The hardware of a whole fleet, all the time: sequential tests with a budget of false alarms.

`metrics` -> `arrays` -> `peers` (distance from those who must behave alike) -> `baseline` (own
past) -> `sequential` (evidence in nats) -> `budget` and `discovery` (enough of it?) -> `alarms`.
`watching.watch` is one pass; `state` is what is remembered, `state_file` keeps it across restarts;
`archive` reads the arrays from a run archive.
"""
