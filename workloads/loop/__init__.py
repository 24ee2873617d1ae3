"""The training loop of one rank, its checkpoints, evaluations, goals, log and curves."""
