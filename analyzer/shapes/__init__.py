"""What goes from room to room: runs, grids, operations, verdicts and their words."""
