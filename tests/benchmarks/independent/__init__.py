"""Simulated archives of distributed training that owe nothing to the project's own simulator.

The layout and physics of the runs, their faults and what sensors tell of them were written without
a look at `evaluation.synth` or at the analyzer. Whoever tunes an analyzer against one simulator
also tunes it to that simulator's habits; here such habits show as wrong names. So nothing in this
package may import `evaluation.synth`, `analyzer.stragglers.model`, `analyzer.causes.symptoms`,
`analyzer.causes.specs` or
anything else of the analyzer: of the project it knows `collector.contract` alone, the words and
files of an archive, and `tests.benchmarks.simulated`, how such files are written.

`layout` who and where the ranks are; `noise` what is never quite the same; `benign` what slows a
run and is nobody's fault; `steps` how long each step takes; `faults` `fault_effects` what is
injected; `telemetry` with `gpu_state` `gpu_telemetry` `rank_telemetry` `node_telemetry` what
scrapes saw; `operations` `archive` the files; `runs` one run from its seed to its truth; `truth`
that as grading takes it.

Draws follow one fixed order, so an archive is the same for its kind, seed and number. Where an
order looks odd (a right-hand side before the index it is assigned to), it is kept for that reason.
"""
