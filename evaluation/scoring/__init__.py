"""How good verdicts are against labelled truth, and beside trivial answers."""
