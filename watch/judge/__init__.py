"""What `lockstep watch` concludes cycle after cycle; pure.

`panel` (what all ranks told lately) -> `ratios` and the sequential test
(lockstep.analyzer.hardware.sequential_test) -> `suspicion` and the diagnosis of a run
(`detections`) -> `finding_lifecycle` (findings open and close) -> `page`. `memory` is what is
remembered, as JSON; `lockstep.watch.loop` asks, writes and serves.
"""
