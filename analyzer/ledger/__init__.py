"""Where every rank-second of a run went, over all its attempts (docs/method/ledger.md)."""

from lockstep.analyzer.ledger.attempt import Attempt
from lockstep.analyzer.ledger.jobs import chains
from lockstep.analyzer.ledger.ledger import Ledger, Straggler, ledger

__all__ = ["Attempt", "Ledger", "Straggler", "chains", "ledger"]
