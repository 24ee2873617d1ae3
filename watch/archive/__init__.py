"""The archive of a finding: its samples, operations, dumps, verdict and report."""
