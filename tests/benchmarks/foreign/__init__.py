"""Simulated archives by somebody who had read the contract of archives, pages of docs, no code.

A third generator, which owes nothing to `evaluation.synth` or to `tests.benchmarks.independent`: an
analyzer that was mended until it did well on those two is met here by other habits. A run is walked
step by step, and its state feeds back: heat slows a clock, a slow clock heats less, an empty queue
of a loader stalls a rank, and who waits refills it. Nothing here imports the analyzer; of the
project it knows `lockstep.collector.contract`, and `tests.benchmarks.simulated` for the files.

`kinds` what can be asked for; `streams` random numbers by name; `scenario` `drawing` `periods` one
run before it begins; `faults` `effects` what is injected; `network` `pipeline` `gradients` `gpus`
`loader` parts of a step; `noise` what differs from step to step; `walk` the steps; `timeline` what
came of them; `archive` the files; `scene` with `host_telemetry` `port_telemetry` `gpu_telemetry`
`rank_telemetry` what scrapes saw; `truth` what a verdict should say; `runs` which runs, and one.

An archive is the same for its kind and seed. Sums and products stand in the order in which they
were first written, and draws in theirs: another order would make other runs.
"""
