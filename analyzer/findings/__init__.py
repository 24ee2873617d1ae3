"""A finding: what watch found, how it lives, and what is said of it."""
