"""What a run is worth, and how it is told: evaluations, goals, throughput, log and curves."""
