"""The only code that touches the world: each source reads one thing into a frozen reading."""
