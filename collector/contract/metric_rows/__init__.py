"""The rows of `contract.metrics`, one file a subject, and what a row is."""
