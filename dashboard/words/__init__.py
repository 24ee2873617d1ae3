"""Sentences and tables of the pages: pure functions from what sources give to words."""
