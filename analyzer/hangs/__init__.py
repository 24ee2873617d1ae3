"""Why a run stands still: by the flight-recorder dumps of its ranks, or by their last scrapes.

dumps <- flight_recorder <- jobs <- merge <- waits <- origins <- verdict <- stacks <- document,
each one step from files to a verdict; docs/method/hang.md has the rules. last_seen <- run_end <-
onset <- detector, the same from the grid of a run. Nothing here touches the world.
"""
