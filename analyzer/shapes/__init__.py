"""The types that rooms exchange: runs, grids, operations, verdicts, and their wording."""
