"""A run of which only the durations of its collectives are known (docs/method/durations.md)."""
