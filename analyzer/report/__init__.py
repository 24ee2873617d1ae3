"""A Diagnosis as a report: one JSON tree, and the formats made from it."""
