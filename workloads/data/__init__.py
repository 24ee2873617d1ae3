"""Training data: synthetic sources of known difficulty, and readers."""
