"""Records the steps of anybody's training program; standard library only."""
