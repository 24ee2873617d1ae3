"""The client of the HTTP API."""
