"""The ground: every name, label, unit, record field and archive column that crosses a floor.

Standard library only. `words` holds the vocabularies, `metrics` the exporter's page, `ring` the
per-rank record, `device` the simulated GPU's state file, `archive` the run archive and `/ops`.
"""
