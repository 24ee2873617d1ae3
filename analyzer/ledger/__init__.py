"""Where every rank-second of a run went, over all its attempts (docs/method/ledger.md)."""

from analyzer.ledger.attempt import Attempt
from analyzer.ledger.jobs import chains
from analyzer.ledger.ledger import Ledger, Straggler, ledger

__all__ = ["Attempt", "Ledger", "Straggler", "chains", "ledger"]
