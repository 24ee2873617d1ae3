"""Why a run stands still: from the flight-recorder dumps of its ranks to a verdict.

shapes <- handles <- dump_tree <- jobs <- merge <- calls <- waits <- origins <- verdict <- document,
each one step; docs/method/hang.md has the rules. Nothing here touches the world.
"""
