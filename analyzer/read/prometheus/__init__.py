"""A run as a Prometheus recorded it, as the same Run that an archive without steps gives."""
