"""Where every rank-second of a run went, over all its attempts (docs/method/ledger.md)."""
