"""One file a dashboard: `make(settings)` gives its JSON model."""
